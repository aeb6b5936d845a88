// GRACE-MoE's two routing policies as replica choices, for the plans of any placement policy.
//   Source  : GRACE-MoE, Sec. 4.3, Eq. 3, Algorithms 3 and 4 (Appendix A.3).
//   Models  : weights inverse to the load that Eq. 3 predicts for a copy's GPU from the planning window; weighted
//             random choice (the pseudo-code), whose expected shares are the weights, or smooth weighted round-robin
//             (the text's name for it), where each source deals its tokens of an expert out in turn.
//   Readings: several copies on one GPU, which GRACE never makes, divide its share equally.
#pragma once

#include <span>
#include <vector>

#include "sim/core/choice.h"
#include "sim/domain/cluster_spec.h"
#include "sim/domain/placement_plan.h"

namespace epsim {

// What a copy takes over (Eq. 3). kConserving: W_p = W_r / (n + 1), the replicated load spread over its instances, so
// that the total stays. kEq3Literal: W_p = W_max / (n + 1), as printed.
enum class Prediction { kConserving, kEq3Literal };
template <>
inline constexpr auto kNames<Prediction> = choice<Prediction>({{"conserving", Prediction::kConserving},
                                                               {"eq3_literal", Prediction::kEq3Literal}});

// Loads per GPU that Eq. 3 predicts once copies serve: kConserving divides the load of each expert evenly over its
// copies. kEq3Literal throws InputError for plans that Eq. 3 does not describe: copied experts must all have their
// original on one GPU, and copies on the same other GPUs.
std::vector<double> predicted_gpu_loads(const LayerPlan& layer, std::span<const double> loads, Prediction how);

// Which copy of an expert a token uses (Sec. 4.3, Algorithms 3 and 4 of Appendix A.3).

// One weight per GPU, inverse to its predicted load (predicted_gpu_loads), not normalised. A GPU without load
// counts as one assignment, so that its weight stays finite.
std::vector<double> polling_weights(std::span<const double> predicted_load);

// kWeighted: any copy, by weight (WRR). kTopologyAware: a copy on the token's GPU; else one in its node, by weight;
// else any, by weight (TAR). A local copy is taken even where its GPU is overloaded.
enum class WeightedRule { kWeighted, kTopologyAware };

// The chance of each of `holders` (GPUs with a copy of the expert, all different) for a token that lives on
// `token_gpu`; sums to 1.
std::vector<double> copy_shares(int token_gpu, std::span<const int> holders, std::span<const double> weights,
                                const ClusterShape& shape, WeightedRule rule);

// The shares that `picks` tokens in a row come to when copies take turns by smooth weighted round-robin instead of by
// lot: each turn every copy gains its share, and the one with most (the first of equals) is chosen and pays 1. Whole
// picks, so that few tokens come out unlike `shares`; after a whole period they are equal.
std::vector<double> smooth_shares(std::span<const double> shares, int picks);

}  // namespace epsim
