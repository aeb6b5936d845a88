#include "sim/domain/step_draws.h"

#include <algorithm>

namespace epsim {

const StepLoads& StepDraws::draw(const StepAt& at, std::span<const std::int64_t> tokens,
                                 std::span<const std::int64_t> decodes) {
  for (const Drawn& d : drawn_) {
    if (d.any && d.step == at.number && d.start == at.start && std::ranges::equal(d.tokens, tokens) &&
        std::ranges::equal(d.decodes, decodes)) {
      return d.loads;
    }
  }
  Drawn& d = drawn_[next_];
  next_ = (next_ + 1) % drawn_.size();
  d.any = true;
  d.step = at.number;
  d.start = at.start;
  d.tokens.assign(tokens.begin(), tokens.end());
  d.decodes.assign(decodes.begin(), decodes.end());
  source_.draw_mixed(at, tokens, decodes, d.loads);
  return d.loads;
}

}  // namespace epsim
