#include "sim/domain/step.h"

#include <algorithm>

#include "sim/core/check.h"

namespace epsim {

void add_cost(StepCost& sum, const StepCost& step) {
  sum.total += step.total;
  for (std::size_t i = 0; i < sum.by_part.size(); ++i) {
    sum.by_part[i] += step.by_part[i];
  }
  for (std::size_t i = 0; i < sum.by_origin.size(); ++i) {
    sum.by_origin[i] += step.by_origin[i];
  }
  sum.straggler += step.straggler;
}

StepKind kind_of(std::span<const RankBatch> ranks) {
  const bool prompts = std::any_of(ranks.begin(), ranks.end(), [](const RankBatch& b) { return b.prefill_tokens > 0; });
  const bool decodes =
      std::any_of(ranks.begin(), ranks.end(), [](const RankBatch& b) { return b.decode_tokens > b.padding; });
  return !prompts ? StepKind::kDecode : decodes ? StepKind::kMixed : StepKind::kPrefill;
}

void StepPricer::set_conditions(const StepConditions&) {
  EPSIM_CHECK(false, "this pricer of steps knows no slowed or straggling hardware");
}

}  // namespace epsim
