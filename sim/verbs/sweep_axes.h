// What a sweep varies: axes of values, and the points that they span.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace epsim {

inline constexpr std::size_t kMostSweepPoints = 100000;

// One key of the scenario and the values that it takes, each a YAML text as `--set` takes it. Or, with `settings`, a
// name and labels, each of which sets several keys: settings[value] holds "key=value".
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
  std::vector<std::vector<std::string>> settings{};
};

// "key=a,b,c". Commas inside quotes, [brackets] and {braces} belong to a value: "x=[1,2],[3,4]" has two values. Blanks
// around values are dropped. Throws InputError: no key, no value, an empty or repeated value, unbalanced brackets.
SweepAxis parse_axis(const std::string& text);

// Throws InputError when a key is varied twice, is fixed by one of `overrides` ("key=value") too, or is below or above
// another; when there are more than kMostSweepPoints combinations with `policies` (0 counts as 1); when `policy` is an
// axis.
void check_axes(const std::vector<SweepAxis>& axes, const std::vector<std::string>& overrides, std::size_t policies);

// Number of combinations, and the values of combination `index`, one per axis; the last axis changes fastest.
std::size_t combinations(const std::vector<SweepAxis>& axes);
std::vector<std::string> values_at(const std::vector<SweepAxis>& axes, std::size_t index);
// What that combination sets, as "key=value".
std::vector<std::string> settings_at(const std::vector<SweepAxis>& axes, std::size_t index);
// The first combination that differs from this one in keys of other policies alone (policies.LABEL....), which `policy`
// does not read.
std::size_t first_alike(const std::vector<SweepAxis>& axes, std::size_t index, const std::string& policy);

}  // namespace epsim
