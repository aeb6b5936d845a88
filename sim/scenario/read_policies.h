// The sections `policies` and `policy`: every entry's own keys, and those that its policy declares (policies/registry.h).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/config.h"
#include "sim/scenario/scenario.h"

namespace epsim {

// Of every entry, and of its section replica_choice; those of policies and choices come on top.
std::span<const Key> policy_entry_keys();
std::span<const Key> replica_choice_keys();

// Sections that an entry may have, with keys that stand before the scenario's own.
inline constexpr std::string_view kSystemSections[] = {"parallelism", "memory", "dispatch", "serving", "execution"};

// Reads a label whose entry, at the path, has such sections, in the scenario that has them in place of its own.
using ReadSystem = std::function<PolicyChoice(const std::vector<std::string>& path, const std::string& label)>;

// What these sections of an entry say, as --set would: "dispatch.dedup=node, serving.engine=vllm". Of a reader that
// nothing was read from.
std::string settings_of(ConfigReader entry);

// Whether a policy that runs plans from the steps of a window; of entries as they stand, before they are checked.
bool any_uses_steps(ConfigReader root, const std::vector<std::string>& labels);

// The policies of the scenario that run, in the order of `labels`; without labels that which `policy` names. Entries
// that do not run are checked too. Needs the rest of the scenario. Without `read_system` that is a label's own: nothing
// but what the labels name is read.
void read_policies(ConfigReader root, const std::vector<std::string>& labels, const ReadSystem& read_system,
                   Scenario& s);

}  // namespace epsim
