// The figures of a plan, and the plan as a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/domain/placement_plan.h"
#include "sim/verbs/plan_request.h"

namespace epsim {

struct PlanFigures {
  // balancedness of each layer under the loads that were planned from. `before`: experts in order without copies, what
  // an engine does without a load balancer. `previous`: the previous plan, where the request names one.
  std::vector<double> before, after, previous;
  std::vector<std::int64_t> experts_per_gpu;  // physical, all layers
  std::optional<std::int64_t> moved_copies;   // experts that were not on their GPU in the previous plan
};

// Throws InputError when the plan leaves an expert out.
PlanFigures plan_figures(const PlacementPlan& plan, const PlanRequest& request);

// The plan file (policies/plan_formats.md).
std::string plan_json(const PlacementPlan& plan, const PlanRequest& request, const PlanFigures& figures);

// "epsim", or a format of an engine, which its own file has. Throws InputError that lists them.
inline constexpr const char* kOwnPlanFormat = "epsim";
std::string checked_plan_format(const std::string& format);
// The plan as a file of that format.
std::string plan_file(const PlacementPlan& plan, const PlanRequest& request, const PlanFigures& figures,
                      const std::string& format);

// One paragraph for the terminal.
std::string plan_summary(const PlacementPlan& plan, const PlanRequest& request, const PlanFigures& figures);

}  // namespace epsim
