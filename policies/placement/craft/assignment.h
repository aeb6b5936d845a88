// CRAFT step 4: on which GPUs a layer's uneven slots go (Algorithm 3, Appendix A.0.3).
#pragma once

#include <span>
#include <vector>

#include "policies/placement/craft/benefit.h"

namespace epsim {

// Slots per GPU, [layer][GPU], for layers that hold layer_experts[l] physical experts (originals and copies). Inside a
// layer GPUs differ by at most one; over all layers they are equal when the sum divides over the GPUs, else they differ
// by at most one. Extra slots go to the GPUs that hold fewest so far, tied ones interleaved.
std::vector<std::vector<int>> assign_capacities(std::span<const int> layer_experts, int gpus, Interleave how);

}  // namespace epsim
