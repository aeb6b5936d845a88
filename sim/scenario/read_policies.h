// The sections `policies` and `policy`: every entry's own keys, and those that its policy declares (policies/registry.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/core/config.h"
#include "sim/scenario/scenario.h"

namespace epsim {

// Of every entry, and of its section replica_choice; those of policies and choices come on top.
std::span<const Key> policy_entry_keys();
std::span<const Key> replica_choice_keys();

// The policies of the scenario that run, in the order of `labels`; without labels that which `policy` names. Entries
// that do not run are checked too. Needs the rest of the scenario.
void read_policies(ConfigReader root, const std::vector<std::string>& labels, Scenario& s);

}  // namespace epsim
