#include "sim/domain/step_draws.h"

#include <algorithm>

namespace epsim {

const StepLoads& StepDraws::draw(const StepAt& at, std::span<const std::int64_t> tokens,
                                 std::span<const std::int64_t> decodes) {
  const std::int64_t hold = source_.hold_steps(), step = at.number / hold;
  for (const Drawn& d : drawn_) {
    if (d.number > 0 && d.step == step && (hold > 1 || d.start == at.start) && std::ranges::equal(d.tokens, tokens) &&
        std::ranges::equal(d.decodes, decodes)) {
      last_ = d.number;
      return d.loads;
    }
  }
  Drawn& d = drawn_[next_];
  next_ = (next_ + 1) % drawn_.size();
  d.number = last_ = ++count_;
  d.step = step;
  d.start = at.start;
  d.tokens.assign(tokens.begin(), tokens.end());
  d.decodes.assign(decodes.begin(), decodes.end());
  source_.draw_mixed(at, tokens, decodes, d.loads);
  return d.loads;
}

}  // namespace epsim
