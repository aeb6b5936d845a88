// Every key that a scenario may have: what `epsim list keys`, docs/keys.md and `epsim schema` print, and what a file is
// checked against before its sections are read. A section's rows stand beside its reader, which takes its values through
// them (sim/core/key.h); scenario_keys.cpp says which rows belong to which section. A new key is a row and its use.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/config.h"

namespace epsim {

struct ScenarioKey {
  std::string path;      // dotted; * for a label of `policies`, [] for the items of a list
  std::string variants;  // values of the section's `kind` (`engine`, `rule`) that have the key; empty: all
  ValueType type;
  Range range;           // of numbers and quantities
  std::string fallback;  // "required", "none" (nothing unless given), "(...)" where the reader works it out, or the
                         // default
  std::vector<std::string> choices;  // values that it may have; empty: any
  bool open = false;                 // other values than the choices are possible: a path, a label
  std::string listed_by;             // the command that lists the choices, where they are many
  std::string sentence;
  const Key* row = nullptr;  // that its reader takes it through
};

// All rows, section by section. Rows of one path differ in their variants.
const std::vector<ScenarioKey>& scenario_keys();

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

}  // namespace epsim
