// All policies by name. To add one: its .cpp with its entry, the entry's name in registry.cpp, its line of CMake.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/placement_policy.h"
#include "policies/policy_entry.h"
#include "policies/replica_choice.h"
#include "policies/step_policy.h"

namespace epsim {

// In which option a policy takes the number of copies it may make.
//   kFixed     : none; the policy settles the number itself.
//   kPerLayer  : num_redundant_experts, copies of a layer over all GPUs, as many in every layer.
//   kOverLayers: replication_factor, copies of a GPU over all layers.
enum class CopyBudget { kFixed, kPerLayer, kOverLayers };

// Whether a policy takes num_groups, the expert groups of the model's router.
//   kUnknown   : no.
//   kOnRequest : yes, and places whole groups on nodes when its mode says so.
//   kAsArgument: likewise, and a plan request that states the groups, as callers of eplb.py do, means mode auto.
enum class ExpertGroups { kUnknown, kOnRequest, kAsArgument };

// What makes a policy a ceiling of comparisons, which no deployment can have.
//   kKnowsRunLoads : it plans from the loads that the run is scored on.
//   kPerfectBalance: every expert takes the same load in every step.
enum class Ceiling { kNone, kKnowsRunLoads, kPerfectBalance };

struct PlacementPolicyEntry : PolicyEntry<PlacementPolicy> {
  ExpertGroups expert_groups = ExpertGroups::kUnknown;
  CopyBudget budget = CopyBudget::kFixed;
  std::string_view replica_choice = {};  // that goes with it unless another is asked for; empty = copies share evenly
  bool keeps_slots = false;              // a new plan leaves experts that stay on their GPU in their slots
  Ceiling ceiling = Ceiling::kNone;
  std::string_view engine = {};  // whose own load balancer it is: how the names of its versions begin
  bool uses_steps = false;  // plans from a window's steps (LoadWindow::batches), where it has them, not from their sum
};
// Of what a run adds to every such policy (sim/scenario/step_policy_run.h), the parts that only some read.
struct StepPolicyEntry : PolicyEntry<StepPolicy> {
  bool predicts = false;       // accuracy, distortion
  bool copies_experts = true;  // copy_efficiency
};
using ReplicaChoiceEntry = PolicyEntry<ReplicaChoice>;

// In the order in which they are listed to users.
std::span<const PlacementPolicyEntry> placement_policies();
std::span<const PlacementPolicyEntry> ceilings();
std::span<const StepPolicyEntry> step_policies();
std::span<const ReplicaChoiceEntry> replica_choices();

// The user's own policies, from shared objects (policies/plugin): kind `plugin`. Not among the above: there is nothing
// to run without a file.
const PlacementPolicyEntry& plugin_policy();

// Experts in order, from which policies that act in every step start.
const PlacementPolicyEntry& experts_in_order();

// What a diagnosis of recorded loads compares, in this order: experts in order, placement by load alone, the load balancer
// of engines with its copies, and the ceiling of balancing every batch.
std::vector<std::string> diagnosed_policies();
// What the section `policies` says of some of these, by name, where the user names no kind: the engine's own load balancer,
// and placement its way.
std::vector<std::pair<std::string, std::string>> diagnosed_defaults(std::string_view engine);

// All of these, as a policy's `kind` may name them.
std::vector<std::string> policy_kinds();

// The entry `name`, the plug-ins' included. Throws InputError at `options` for an unknown name; the message lists all,
// the nearest first.
const PlacementPolicyEntry& placement_policy_entry(const std::string& name, const ConfigReader& options);

// The choice `name` with its options read from `options`; the caller calls finish() on them. Throws InputError for an
// unknown name and for options that are out of range.
std::unique_ptr<ReplicaChoice> make_replica_choice(const std::string& name, ConfigReader& options);

}  // namespace epsim
