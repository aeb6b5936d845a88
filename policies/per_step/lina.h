// Lina's copies in proportion to the popularity that is predicted for the next layer's experts.
//   Source  : Li et al., "Accelerating Distributed MoE Training and Inference with Lina", USENIX ATC 2023, as Libra's
//             Sec. 5 describes its own version (path of the last l = 4 layers, N extra experts per GPU, tokens split
//             evenly). No code by the authors is public: this follows the descriptions.
//   Readings: copies go one by one to the expert with most tokens per copy, on the lightest GPU without it that has room.
//   Ignores : its table of paths. What a prediction gets right is the scenario's `accuracy`.
#pragma once

#include <span>

#include "policies/residency.h"

namespace epsim {

// n_extra more experts on every GPU for the predicted tokens per expert. A GPU that holds every expert gets none; nor
// does any where no tokens are predicted.
Residency lina_replicate(std::span<const double> popularity, const Residency& home, int n_extra);

}  // namespace epsim
