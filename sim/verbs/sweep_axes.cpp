#include "sim/verbs/sweep_axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "sim/core/error.h"
#include "sim/core/refuse.h"

namespace epsim {
namespace {

InputPlace varied(const std::string& text) { return {"--vary " + text, 0, ""}; }

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  const std::size_t last = text.find_last_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

// Cuts at the commas that stand outside of quotes and brackets. A quote opens only at the start of a word, as in YAML:
// the apostrophe of "it's" is a letter.
std::vector<std::string> split_values(const std::string& argument, const std::string& text) {
  std::vector<std::string> out(1);
  std::string closers;  // what the open brackets wait for, innermost last
  char quote = '\0';
  bool word_starts = true;
  for (const char c : text) {
    if (quote != '\0') {
      quote = c == quote ? '\0' : quote;
    } else if ((c == '"' || c == '\'') && word_starts) {
      quote = c;
    } else if (c == '[' || c == '{') {
      closers += c == '[' ? ']' : '}';
    } else if (c == ']' || c == '}') {
      refuse_if(closers.empty() || closers.back() != c, varied(argument),
                fmt::format("'{}' closes nothing; brackets come in pairs.", c));
      closers.pop_back();
    } else if (c == ',' && closers.empty()) {
      out.emplace_back();
      word_starts = true;
      continue;
    }
    word_starts = (c == ' ' && word_starts) || c == '[' || c == '{' || c == ',' || c == ':';
    out.back() += c;
  }
  if (quote != '\0' || !closers.empty()) {
    throw InputError(varied(argument),
                     fmt::format("'{}' is missing at the end.", quote != '\0' ? quote : closers.back()));
  }
  return out;
}

bool is_below(const std::string& key, const std::string& above) { return key.starts_with(above + "."); }

std::string key_of(const std::string& assignment) { return assignment.substr(0, assignment.find('=')); }

constexpr std::string_view kPolicies = "policies.";

// The keys of the scenario that an axis varies.
std::set<std::string> keys_of(const SweepAxis& axis) {
  std::set<std::string> out;
  for (const std::vector<std::string>& settings : axis.settings) {
    std::transform(settings.begin(), settings.end(), std::inserter(out, out.end()), key_of);
  }
  return axis.settings.empty() ? std::set<std::string>{axis.key} : out;
}

void check_apart(const std::string& key, const std::string& other) {
  refuse_if(other == key || is_below(key, other) || is_below(other, key), varied(key),
            fmt::format("'{}' and '{}' vary the same value; name each key once.", other, key));
}

void check_free(const std::string& key, const std::vector<std::string>& overrides) {
  for (const std::string& assignment : overrides) {
    const std::string fixed = key_of(assignment);
    refuse_if(fixed == key || is_below(fixed, key), varied(key),
              fmt::format("'{}' is fixed by --set {}{} too; it is one or the other.", key, assignment,
                          fixed == "seed" ? " (or --seed)" : ""));
  }
}

}  // namespace

SweepAxis parse_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  refuse_if(equals == std::string::npos || trimmed(text.substr(0, equals)).empty(), varied(text),
            "what varies is written key=a,b,c, with dots between nested keys.");
  SweepAxis axis{trimmed(text.substr(0, equals)), {}};
  for (const std::string& piece : split_values(text, text.substr(equals + 1))) {
    const std::string value = trimmed(piece);
    refuse_if(value.empty(), varied(text), "a value is empty; write \"\" for an empty text.");
    refuse_if(std::find(axis.values.begin(), axis.values.end(), value) != axis.values.end(), varied(text),
              fmt::format("the value {} is given twice.", value));
    axis.values.push_back(value);
  }
  return axis;
}

void check_axes(const std::vector<SweepAxis>& axes, const std::vector<std::string>& overrides, std::size_t policies) {
  std::size_t points = std::max<std::size_t>(policies, 1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::string& key = axes[i].key;
    refuse_if(key == "policy", varied(key), "policies are compared with --policies base,eplb.");
    for (const std::string& varied : keys_of(axes[i])) {
      for (std::size_t j = 0; j < i; ++j) {
        for (const std::string& other : keys_of(axes[j])) {
          check_apart(varied, other);
        }
      }
      check_free(varied, overrides);
    }
    refuse_if(axes[i].values.size() > kMostSweepPoints / points, varied(key),
              fmt::format("with this axis there are more than {} points; vary less at once.", kMostSweepPoints));
    points *= axes[i].values.size();
  }
}

std::size_t combinations(const std::vector<SweepAxis>& axes) {
  std::size_t out = 1;
  for (const SweepAxis& axis : axes) {
    out *= axis.values.size();
  }
  return out;
}

std::vector<std::string> values_at(const std::vector<SweepAxis>& axes, std::size_t index) {
  std::vector<std::string> out(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    const std::vector<std::string>& values = axes[i].values;
    out[i] = values[index % values.size()];
    index /= values.size();
  }
  return out;
}

std::size_t first_alike(const std::vector<SweepAxis>& axes, std::size_t index, const std::string& policy) {
  const auto is_of_another = [&](const std::string& key) {
    const std::size_t label = kPolicies.size(), end = key.find('.', label);
    // A variant of a policy reads what the policy reads; its label begins with the policy's.
    return key.starts_with(kPolicies) && !policy.starts_with(key.substr(label, end - label));
  };
  std::size_t out = 0, stride = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    const std::size_t size = axes[i].values.size();
    out += std::ranges::all_of(keys_of(axes[i]), is_of_another) ? 0 : index % size * stride;
    index /= size;
    stride *= size;
  }
  return out;
}

std::vector<std::string> settings_at(const std::vector<SweepAxis>& axes, std::size_t index) {
  const std::vector<std::string> values = values_at(axes, index);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const SweepAxis& axis = axes[i];
    if (axis.settings.empty()) {
      out.push_back(axis.key + "=" + values[i]);
      continue;
    }
    const auto at = std::find(axis.values.begin(), axis.values.end(), values[i]) - axis.values.begin();
    const std::vector<std::string>& set = axis.settings[static_cast<std::size_t>(at)];
    out.insert(out.end(), set.begin(), set.end());
  }
  return out;
}

}  // namespace epsim
