// What `epsim plan` is asked for: a policy, loads, a cluster's shape.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "policies/placement/craft/craft.h"
#include "policies/placement_policy.h"
#include "sim/core/config.h"
#include "sim/domain/moe_spec.h"

namespace epsim::app {

struct PlanRequest {
  std::string policy;  // its name
  std::shared_ptr<const PlacementPolicy> placement;
  std::optional<CraftOptions> craft;  // the same options again where the policy is craft, for --explain
  LoadWindow load;
  ClusterShape shape;
  std::optional<MoeSpec> model;
  std::optional<Bytes> expert_bytes;  // of one routed expert of one layer
  std::optional<PlacementPlan> previous;
  std::string previous_name;
};

// Reads the request (policies/plan_formats.md lists its keys). Throws InputError for anything that cannot be planned.
PlanRequest read_plan_request(const Config& config);

}  // namespace epsim::app
