// All placement policies by name. To add one: its .cpp, its line in the table of registry.cpp, its line of CMake.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "policies/placement_policy.h"
#include "sim/core/config.h"

namespace epsim {

struct PlacementPolicyEntry {
  std::string_view name;
  std::string_view summary;  // one sentence and where the policy comes from
  std::string_view options;  // what the factory reads, with defaults
  std::unique_ptr<PlacementPolicy> (*make)(ConfigReader& options);
};

// In the order in which they are listed to users.
std::span<const PlacementPolicyEntry> placement_policies();

// The user's own policies, from shared objects (policies/plugin): kind `plugin`. Not among the above: there is nothing
// to run without a file.
const PlacementPolicyEntry& plugin_policy();

// The policy `name` with its options read from `options`; the caller calls finish() on them. Throws InputError for an
// unknown name (the message lists all, the nearest first) and for options that are out of range.
std::unique_ptr<PlacementPolicy> make_placement_policy(const std::string& name, ConfigReader& options);

}  // namespace epsim
