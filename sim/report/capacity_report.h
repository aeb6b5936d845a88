// The tables of `epsim capacity`, and all of its answer as JSON.
#pragma once

#include <string>

#include "sim/report/sweep_table.h"
#include "sim/study/capacity_cost.h"

namespace epsim {

// A row for every design (candidates.csv) and for every deployment, the recommended first (deployments.csv).
ResultTable candidates_table(const CapacityPlan& plan);
ResultTable deployments_table(const CapacityPlan& plan);
// Every price that is known for the nodes of the recommended deployment.
ResultTable prices_table(const CapacityPlan& plan);
// Of the recommended deployment: one instance under another demand, slower steps or other loads.
ResultTable what_ifs_table(const CapacityPlan& plan);

// All of it, as capacity.json.
std::string capacity_json(const CapacityPlan& plan, const std::string& version);

}  // namespace epsim
