#include "sim/domain/step.h"

#include <algorithm>

#include "sim/core/check.h"

namespace epsim {

StepKind kind_of(std::span<const RankBatch> ranks) {
  const bool prompts = std::any_of(ranks.begin(), ranks.end(), [](const RankBatch& b) { return b.prefill_tokens > 0; });
  const bool decodes = std::any_of(ranks.begin(), ranks.end(), [](const RankBatch& b) { return b.decode_tokens > 0; });
  return !prompts ? StepKind::kDecode : decodes ? StepKind::kMixed : StepKind::kPrefill;
}

void StepPricer::set_conditions(const StepConditions&) {
  EPSIM_CHECK(false, "this pricer of steps knows no slowed or straggling hardware");
}

}  // namespace epsim
