// What `epsim capacity` tells: the recommendation in words, the table, the ledger.
#pragma once

#include <string>

#include "sim/report/sweep_table.h"
#include "sim/study/capacity_cost.h"

namespace epsim {

// "3 prefill instances of 2 nodes and 3 decode instances of 4".
std::string pools_text(const CapacityOption& option);

// Of the terminal: the recommendation with its reasons and the next three, or what comes nearest.
std::string capacity_text(const CapacityPlan& plan);

// A row for every design (candidates.csv) and for every deployment, the recommended first (deployments.csv).
ResultTable candidates_table(const CapacityPlan& plan);
ResultTable deployments_table(const CapacityPlan& plan);
// Every price that is known for the nodes of the recommended deployment.
ResultTable prices_table(const CapacityPlan& plan);
// Of the recommended deployment: what becomes of it under another demand or other loads.
ResultTable what_ifs_table(const CapacityPlan& plan);

// All of it, as capacity.json.
std::string capacity_json(const CapacityPlan& plan, const std::string& version);

}  // namespace epsim
