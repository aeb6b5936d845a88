// FasterMoE's dynamic shadowing: the hottest experts are copied to every GPU for a step when that pays.
//   Source : laekov/fastmoe at 9d9cea8, fmoe/fastermoe/shadow_policy.py (He et al., PPoPP 2022); behaviour only.
//   Models : a two-layer MLP expert of float32 weights; a step takes 3 compute and 4 communication times of the busiest
//            expert (forward and backward), plus one broadcast per shadowed expert.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

// Defaults are those of the source.
struct FasterMoeOptions {
  double hidden = 2048;  // model width
  double alpha = 2;      // expert width / model width
  double element_bytes = 4;
  BytesPerSecond network{50e9 / 8};  // 50 Gb/s
  FlopsPerSecond compute{11.5e12};
};

// Experts to shadow, hottest first. tokens[e] = tokens of expert e over all GPUs; ties to the lower id. Stops at the
// first expert that does not shorten the step; the coldest expert is never shadowed.
std::vector<int> fastermoe_shadows(std::span<const std::int64_t> tokens, const FasterMoeOptions& options);

}  // namespace epsim
