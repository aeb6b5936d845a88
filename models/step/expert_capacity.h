// Buffers of a fixed size for each expert, as DeepSpeed-MoE and Tutel exchange them: a rank sends every expert as many rows,
// whatever its tokens chose; what an expert is chosen for beyond that is dropped, and what is left of a buffer is padding.
//
//   Models : capacity = max(least, ceil(tokens x top-k / experts x factor)) rows of each expert from every rank with tokens,
//            by the tokens of the fullest rank, as the exchange has buffers of one size.
//   Ignores: that Tutel rounds tokens / experts up before it multiplies by top-k; padding beyond a rank's own tokens.
//   Source : deepspeedai/DeepSpeed deepspeed/moe/sharded_moe.py (_capacity, topkgating); microsoft/tutel
//            tutel/impls/fast_dispatch.py (extract_critical).
#pragma once

#include <cstdint>
#include <span>

#include "sim/domain/step_loads.h"

namespace epsim {

struct ExpertCapacity {
  double factor = 0;  // 0: no limit, and no padding
  int least = 0;      // rows

  std::int64_t rows(std::int64_t tokens, int top_k, int experts) const;
};

// Assignments of a step in one exchange, summed over layers: those that are executed, padding included, and those dropped.
struct PaddedLoads {
  StepLoads loads;  // one source a rank
  double executed_per_layer = 0, dropped = 0;
};
// `tokens` [rank] of the step whose loads these are.
void pad_to_capacity(const ExpertCapacity& capacity, int top_k, const StepLoads& loads,
                     std::span<const std::int64_t> tokens, PaddedLoads& out);

}  // namespace epsim
