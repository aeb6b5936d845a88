// Which copy of an expert a token uses, as GRACE-MoE chooses (Sec. 4.3, Algorithms 3 and 4 of Appendix A.3).
#pragma once

#include <span>
#include <vector>

#include "sim/core/rng.h"
#include "sim/domain/cluster_spec.h"

namespace epsim {

// One weight per GPU, inverse to its predicted load (GraceCopies::predicted_load), not normalised. A GPU without load
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
