// How a GPU cluster gets from the previous plan of a request to the new one.
#pragma once

#include <string>

#include "sim/domain/placement_plan.h"
#include "sim/verbs/plan_request.h"

namespace epsim {

// The value of the plan file's key `migration` (policies/plan_formats.md). The request names a previous plan.
std::string migration_json(const PlacementPlan& plan, const PlanRequest& request);

}  // namespace epsim
