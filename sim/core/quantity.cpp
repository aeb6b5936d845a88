// Quantities as people write them: a number and a unit.
#include "sim/core/quantity.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <utility>

#include "sim/core/mapped.h"

namespace epsim {
namespace {

using UnitTable = std::vector<std::pair<std::string, double>>;

const std::map<std::string, UnitTable>& units_by_dimension() {
  static const std::map<std::string, UnitTable> table = {
      {"time", {{"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"min", 60.0}, {"h", 3600.0}}},
      {"bytes",
       {{"B", 1.0},
        {"KB", 1e3},
        {"MB", 1e6},
        {"GB", 1e9},
        {"TB", 1e12},
        {"KiB", kKiB},
        {"MiB", kMiB},
        {"GiB", kGiB},
        {"TiB", kGiB * 1024.0}}},
      {"byte rate",
       {{"B/s", 1.0},
        {"KB/s", 1e3},
        {"MB/s", 1e6},
        {"GB/s", 1e9},
        {"TB/s", 1e12},
        {"GiB/s", kGiB},
        {"Gb/s", 1e9 / 8},
        {"Tb/s", 1e12 / 8}}},
      {"flop rate", {{"TF/s", 1e12}, {"GF/s", 1e9}, {"PF/s", 1e15}, {"F/s", 1.0}}},
      {"request rate", {{"/s", 1.0}, {"/min", 1.0 / 60.0}, {"/h", 1.0 / 3600.0}}},
  };
  return table;
}

std::string allowed_units(const UnitTable& units) {
  return fmt::format("{}", fmt::join(mapped(units, [](const auto& unit) { return unit.first; }), ", "));
}

}  // namespace

std::vector<std::string> units_of(ValueType type) {
  const char* dimension = type == ValueType::kTime          ? "time"
                          : type == ValueType::kBytes       ? "bytes"
                          : type == ValueType::kByteRate    ? "byte rate"
                          : type == ValueType::kFlopRate    ? "flop rate"
                          : type == ValueType::kRequestRate ? "request rate"
                                                            : nullptr;
  std::vector<std::string> out;
  if (dimension != nullptr) {
    for (const auto& [name, scale] : units_by_dimension().at(dimension)) {
      out.push_back(name);
    }
  }
  return out;
}

std::optional<double> parse_quantity(const std::string& text, const std::string& dimension, std::string& problem) {
  const UnitTable& units = units_by_dimension().at(dimension);
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(number)) {
    problem =
        fmt::format("'{}' is not a {}: write a finite number and a unit ({}).", text, dimension, allowed_units(units));
    return std::nullopt;
  }
  std::string unit(end);
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size() : unit.find_first_not_of(' '));
  for (const auto& [name, scale] : units) {
    if (unit == name) {
      return number * scale;
    }
  }
  problem = unit.empty() ? fmt::format("'{}' has no unit: a {} is written with one of {}.", text, dimension,
                                       allowed_units(units))
                         : fmt::format("'{}' has the unit '{}', which is not one of a {}: {}.", text, unit, dimension,
                                       allowed_units(units));
  return std::nullopt;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    if (!word.empty()) {
      out.push_back(word);
    }
  }
  return out;
}

}  // namespace epsim
