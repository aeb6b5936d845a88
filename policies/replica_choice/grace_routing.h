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

}  // namespace epsim
