// CRAFT: cost-aware expert replica allocation with fine-grained, per-layer replication (the paper's Sec. 4 and Appendix
// A).
//   Models  : gains by replay, a knapsack over layers with an exact budget, interleaved capacities, capacity-aware
//             greedy placement.
//   Ignores : nodes, except through interleaving, unless placement is hierarchical (layout.h).
//   Readings: the budget counts copies alone, not base experts with them; capacities are shared out over originals and
//             copies together, which differs from copies alone only where experts do not divide over GPUs; the
//             automatic factor looks at the best allocation of each budget, not at equal copies in all layers.
//   Valid   : any experts and GPUs; where experts do not divide over GPUs the GPUs' totals may differ by one expert.
#pragma once

#include <optional>
#include <vector>

#include "policies/placement/craft/allocation.h"
#include "policies/placement/craft/benefit.h"
#include "policies/placement/eplb.h"
#include "policies/placement_policy.h"
#include "policies/plan_explanation.h"
#include "sim/core/config.h"

namespace epsim {

// kExact: the whole budget is spent, so that all GPUs hold equally much. kAtMost ("under the constraint"): less, where
// the last copies would lose balance.
enum class CraftBudget { kExact, kAtMost };
template <>
inline constexpr auto kNames<CraftBudget> = choice<CraftBudget>({{"exact", CraftBudget::kExact},
                                                                 {"at_most", CraftBudget::kAtMost}});

struct CraftOptions {
  std::optional<int> replication_factor;  // extra copies per GPU over all layers, 0 .. layers; absent = automatic
  AutoFactor auto_rule = AutoFactor::kKnee;
  CraftObjective objective = CraftObjective::kGain;
  CraftBudget budget = CraftBudget::kExact;
  BenefitOptions benefit;
  EplbMode mode = EplbMode::kGlobal;
  int groups = 1;    // expert groups of the model's router, for hierarchical placement
  InputPlace place;  // where the options stand, for messages
};

// Why a plan is as it is.
struct CraftExplanation {
  GainTable table;    // estimated gains
  FactorCurve curve;  // empty when the factor was given
  int replication_factor = 0;
  std::vector<int> layer_copies;     // extra copies per layer; with an exact budget they sum to factor x GPUs
  std::vector<double> balancedness;  // [layer] of the final placement, replayed on the same window
};

// `why` is filled in when given.
PlacementPlan craft_plan(const CraftOptions& options, const LoadWindow& load, const ClusterShape& shape,
                         CraftExplanation* why = nullptr);

CraftOptions read_craft_options(ConfigReader& in);

// As tables, and as member `craft` of a plan's file.
PlanExplanation explain_craft(const CraftExplanation& why, int gpus);

}  // namespace epsim
