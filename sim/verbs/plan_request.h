// What `epsim plan` is asked for: a policy, loads, a cluster's shape.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "policies/placement_policy.h"
#include "policies/rebalance/keep_in_place.h"
#include "sim/core/config.h"
#include "sim/domain/moe_spec.h"

namespace epsim {

struct PlanRequest {
  std::string policy;  // its name
  std::shared_ptr<const PlacementPolicy> placement;
  LoadWindow load;
  int nodes = 1;       // as the request states them
  ClusterShape shape;  // one node where the policy ignores nodes that the GPUs do not divide over
  std::optional<MoeSpec> model;
  std::optional<Bytes> expert_bytes;  // of one routed expert of one layer
  std::optional<PlacementPlan> previous;
  std::string previous_name;
  std::optional<Keep> keep;  // how the plan is renamed against the previous one; absent = not at all
  int migration_limit = 3;   // copies that a GPU sends, and receives, in one batch of the migration
};

// Reads the request (policies/plan_formats.md lists its keys). Throws InputError for anything that cannot be planned.
PlanRequest read_plan_request(const Config& config);

// The policy's plan, made from the previous one by policies that do so during a run (where it has as many copies), renamed
// as the request says.
PlacementPlan make_plan(const PlanRequest& request);

}  // namespace epsim
