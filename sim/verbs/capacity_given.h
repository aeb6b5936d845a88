// The options of `epsim capacity`, from the command line or a file.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/core/config.h"
#include "sim/core/quantity.h"
#include "sim/core/refuse.h"

namespace epsim {

// Options of `epsim capacity` without their dashes, each with its words: {"rate", {"20/s"}}; lists are one word with
// commas; `quick` counts by being there.
using CapacityWords = std::map<std::string, std::vector<std::string>>;

// What `find` returns; an error of it that names no place names the option.
auto of_option(const std::string& name, const auto& find) {
  try {
    return find();
  } catch (const InputError& e) {
    if (!e.place.file.empty()) {
      throw;
    }
    throw InputError({"", 0, name}, e.problem);
  }
}

inline constexpr double kMostOption = 1e9;  // so that whole ones fit

// Options by name, as the caller gave them or else the file. What the caller gives is read in the file, too, so that
// finish() knows it.
class CapacityGiven {
 public:
  CapacityGiven(const CapacityWords& words, const std::optional<Config>& file) : words_(words) {
    if (file) {
      file_ = file->root();
    }
  }

  // Where an option's value, or a dotted key of `scenario`, stands in the file: nowhere where the caller gave it.
  std::optional<InputPlace> place_in_file(const std::string& name) const {
    std::string option = name;
    std::replace(option.begin(), option.end(), '_', '-');
    if (!file_ || own(name) != nullptr || own(option) != nullptr) {
      return std::nullopt;
    }
    if (file_->has(key(name))) {
      return file_->place(key(name));
    }
    const bool overridden = own("set") != nullptr || own("vary") != nullptr;
    std::optional<ConfigReader> section = overridden ? std::nullopt : file_;
    std::string rest = "scenario." + name;
    for (std::size_t dot; section && (dot = rest.find('.')) != std::string::npos; rest.erase(0, dot + 1)) {
      const std::string part = rest.substr(0, dot);
      section = section->is_section(part) ? std::optional(section->section(part)) : std::nullopt;
    }
    return section && section->has(rest) ? std::optional(section->place(rest)) : std::nullopt;
  }
  bool names(const std::string& name) const { return own(name) != nullptr || (file_ && file_->has(key(name))); }
  std::optional<std::string> word(const std::string& name) {
    const auto in_file = file_ ? file_->maybe<std::string>(key(name)) : std::nullopt;
    return own(name) != nullptr ? std::optional(own(name)->front()) : in_file;
  }
  std::vector<std::string> list(const std::string& name, const std::string& fallback) {
    const auto in_file = list_in_file(name, true);
    auto out = own(name) != nullptr ? split_list(own(name)->front()) : in_file.value_or(split_list(fallback));
    refuse_if(out.empty(), key(name), "the list is empty; leave it out for the default.");
    for (auto at = out.begin(); at != out.end(); ++at) {
      refuse_if(std::find(out.begin(), at, *at) != at, name, fmt::format("'{}' is named twice.", *at));
    }
    return out;
  }
  std::vector<std::string> repeated(const std::string& name) {
    const auto in_file = list_in_file(name, false);
    return own(name) != nullptr ? *own(name) : in_file.value_or(std::vector<std::string>{});
  }
  bool flag(const std::string& name) {
    const auto in_file = file_ ? file_->maybe<bool>(key(name)) : std::nullopt;
    return own(name) != nullptr || in_file.value_or(false);
  }
  // At least `least`.
  double number(const std::string& name, double fallback, double least = 0) {
    const auto text = word(name);
    std::string rest;
    const double value = text ? parse(name, *text, rest) : fallback;
    if (text && (!rest.empty() || value < least)) {
      throw InputError({"", 0, name}, fmt::format("'{}' is not a number of at least {}.", *text, least));
    }
    return value;
  }
  int whole(const std::string& name, int fallback, int least) {
    const double value = number(name, fallback, least);
    refuse_if(value != static_cast<int>(value), name, fmt::format("{} is not a whole number.", value));
    return static_cast<int>(value);
  }
  // "20/s", "400usd/h", "200kW": the number, before one of the units.
  double quantity(const std::string& name, const std::string& unit, double fallback, bool may_be_zero = false) {
    const auto text = word(name);
    std::string rest;
    const double value = text ? parse(name, *text, rest) : fallback;
    if (text && (rest != unit || value < 0 || (value == 0 && !may_be_zero))) {
      throw InputError({"", 0, name}, fmt::format("'{}' is not a number {} the unit {}.", *text,
                                                  rest == unit ? "above 0 with" : "with", unit));
    }
    return value;
  }
  std::vector<int> whole_numbers(const std::string& name, const std::string& fallback) {
    std::vector<int> out;
    for (const std::string& text : list(name, fallback)) {
      std::string rest;
      const double value = parse(name, text, rest);
      refuse_if(!rest.empty() || value < 1 || value != static_cast<int>(value), name,
                fmt::format("'{}' is not a whole number above 0.", text));
      out.push_back(static_cast<int>(value));
    }
    return out;
  }
  // Sections of every scenario, as assignments.
  std::vector<std::string> scenario() {
    std::vector<std::string> out;
    if (file_) {
      for (const auto& [name, text] : file_->section("scenario").rest()) {
        out.push_back(name + "=" + text);
      }
    }
    return out;
  }
  void finish() const {
    if (file_) {
      file_->finish();
    }
  }

 private:
  // A list in brackets, or one word in its place: as the option has it, with commas where `cut`.
  std::optional<std::vector<std::string>> list_in_file(const std::string& name, bool cut) {
    if (!file_ || !file_->has(key(name)) || file_->problem_of(key(name), ValueType::kText, {})) {
      return file_ ? file_->maybe<std::vector<std::string>>(key(name)) : std::nullopt;
    }
    const auto word = file_->required<std::string>(key(name));
    return cut ? split_list(word) : std::vector{word};
  }
  const std::vector<std::string>* own(const std::string& name) const {
    const auto found = words_.find(name);
    return found != words_.end() ? &found->second : nullptr;
  }
  static std::string key(std::string name) {
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
  }
  static double parse(const std::string& name, const std::string& text, std::string& rest) {
    std::size_t used = 0;
    try {
      const double value = std::stod(text, &used);
      rest = text.substr(used);
      if (!(std::abs(value) <= kMostOption)) {
        throw std::out_of_range(text);
      }
      return value;
    } catch (const std::exception&) {
      throw InputError({"", 0, name}, fmt::format("'{}' is not a number.", text));
    }
  }

  const CapacityWords& words_;
  std::optional<ConfigReader> file_;
};

}  // namespace epsim
