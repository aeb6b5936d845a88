// Every key that a scenario may have: what `epsim list keys`, docs/keys.md and `epsim schema` print, and what a file is
// checked against before its sections are read. tests/scenario/scenario_keys_test.cpp holds the table against what the
// readers ask for, in both directions: a new key of a reader needs a row here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/config.h"

namespace epsim {

struct ScenarioKey {
  std::string_view path;      // dotted; * for a label of `policies`, [] for the items of a list
  std::string_view variants;  // values of the section's `kind` (`engine`, `rule`) that have the key; empty: all
  ValueType type;
  Bound bound;                // of numbers and quantities
  std::string_view fallback;  // "required", "none" (nothing unless given), "(...)" where the reader works it out, or
                              // the default
  std::string_view choices;   // values separated by spaces; "@models" and the like: names of a catalogue
  std::string_view sentence;
  double most = 0;  // largest value; 0: no limit
};

// All rows, section by section. Rows of one path differ in their variants.
const std::vector<ScenarioKey>& scenario_keys();

// The rows of a catalogue or those in the row, as words.
std::vector<std::string> choices_of(const ScenarioKey& key);
// Whether other values than choices_of() are possible: a path, a label.
bool open_choices(const ScenarioKey& key);
bool has_variant(const ScenarioKey& key, std::string_view variant);
// "whole number, > 0", "time, >= 0".
std::string type_text(const ScenarioKey& key);

// Sections that take the keys of another one: "plan_loads" those of "loads".
struct SameKeys {
  std::string_view section, as;
};
std::span<const SameKeys> same_keys();
// The path under which the table has a key: "policies.mine.kind" is "policies.*.kind", "plan_loads.kind" "loads.kind".
std::string table_path(const std::string& path);

struct ScenarioCheck {
  std::vector<InputError> errors;   // values of the wrong type, names that do not exist, required keys that are missing
  std::vector<InputError> unknown;  // keys that the table does not have
};
// Looks at every key of the file, whatever else is wrong with it. A section whose kind is unknown is left to its
// reader.
ScenarioCheck check_scenario_keys(const ConfigReader& root);

// The parts of the table.
std::span<const ScenarioKey> system_keys();
std::span<const ScenarioKey> input_keys();
std::span<const ScenarioKey> policy_keys();

}  // namespace epsim
