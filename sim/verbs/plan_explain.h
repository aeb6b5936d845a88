// Why a plan is as it is, as tables for the terminal.
#pragma once

#include <string>

#include "sim/verbs/plan_report.h"

namespace epsim {

// Layer by layer: the hottest experts with their share of the load and their copies, balancedness before and after. For
// CRAFT also the estimated gain of each number of copies, the number chosen, and the gain curve over replication
// factors.
std::string explain_plan(const PlacementPlan& plan, const PlanRequest& request, const PlanFigures& figures);

}  // namespace epsim
