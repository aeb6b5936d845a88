// Capacity planning: the fewest nodes of each kind that serve a demand within an SLO, and what that costs.
//
// A design is how one instance runs: nodes, layout, engine, policy. Every design of a kind of node (a chain) is asked
// two things: does it hold the SLO with fewer nodes than the best so far, or with as many and clearer of the bounds? A run
// of one instance at its share of the rate answers each; where the layout is no better even in perfect balance, no policy
// of it is asked. Prefill and decode instances
// are counted apart: prefill ones with answers cut to two tokens, then decode ones beside at least their share of the
// prefill ones that feed them; then both run in their ratio, each loaded as in the whole deployment. The fewest nodes of
// a kind do not hang on prices, which come afterwards. The deployment that is recommended is run as a whole, with its
// router, and grows until it holds, or sheds instances while it does.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/domain/moe_spec.h"
#include "sim/domain/placement_plan.h"
#include "sim/scenario/deployment_options.h"
#include "sim/study/capacity_control.h"
#include "sim/study/capacity_cost.h"
#include "sim/study/capacity_result.h"

namespace epsim {

// Files that its scenarios read, of the first layout of each kind of node that can be read.
std::set<std::filesystem::path> input_files_of(const CapacityQuestion& question);

// Every value that is named must be one that some design can have: throws the InputError of the first where none can. A
// design that does not go together is a row of the ledger; a name that means nothing is not.
void check_values(const CapacityQuestion& question);

// Ledger and options, none of them run as a whole. Throws StudyInterrupted.
CapacityStudy search_capacity(const CapacityQuestion& question, const CapacityControl& control);

// Of the designs that were run and do not hold, the one that misses its bounds by least; overloads come last.
std::optional<CapacityRow> nearest_of(const std::vector<CapacityRow>& rows, const Slo& slo);

// The plan's study and decision. The cheapest deployment is run as a whole, and so is all that would cost less and
// misses the SLO narrowly at its share; these verdicts take the place of the instances', and the search goes on with
// them until the cheapest holds and nothing close is left below it. Then what it does in other conditions, and its
// highest rate. Throws as above.
void answer_capacity(CapacityPlan& plan, const CapacityQuestion& question, const CapacityControl& control);

// A pool with every default filled in, and where its experts are.
struct PlannedPool {
  InstancePool pool;
  MoeSpec model;
  PlacementPlan plan;
  std::int64_t longest_request = 0;     // of the demand, with its answer, in tokens
  std::int64_t kv_tokens_of_rank = 0;   // KV room of a DP rank
  Router router = Router::kRoundRobin;  // among instances
};
std::vector<PlannedPool> plans_of(const CapacityQuestion& question, const CapacityOption& option);

// The scenario of a deployment at the question's rate, with every default filled in, as YAML.
std::string scenario_of(const CapacityQuestion& question, const CapacityOption& option);

}  // namespace epsim
