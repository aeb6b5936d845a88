// The answer of `epsim capacity` in words: sentences that the terminal, capacity.json and the report share.
#pragma once

#include <string>

#include "sim/study/capacity_cost.h"

namespace epsim {

// Of the whole deployment where it was run, else of its share_of().
const LoadPoint& point_of(const CapacityOption& option);

// The demand: "at 20 requests/s".
std::string load_text(const CapacityPlan& plan);
// "3 prefill instances of 2 nodes and 3 decode instances of 4".
std::string pools_text(const CapacityOption& option);
// "holds", "overloaded", "ttft.p99<2s fails".
std::string verdict_of(const CapacityPlan& plan, const CapacityAnswer& answer);

// Of a feasible plan: what to rent; why it and what would change that. Of another: what comes nearest.
std::string recommendation_words(const CapacityPlan& plan);
std::string why_words(const CapacityPlan& plan);
std::string infeasible_words(const CapacityPlan& plan);

// All of it with tables, for the terminal.
std::string capacity_text(const CapacityPlan& plan);

}  // namespace epsim
