#include "sim/scheduler/prefill_alignment.h"

#include <algorithm>

namespace epsim {

bool PrefillGate::holds(std::span<const PrefillRank> ranks) {
  const bool between = wave_step_++ % options_.schedule_interval != 0;
  return between || (options_.max_delay_passes > 0 && delays(ranks));
}

bool PrefillGate::delays(std::span<const PrefillRank> ranks) {
  const auto could = [](const PrefillRank& r) { return r.could_start; };
  const auto idles = [this](const PrefillRank& r) {
    return r.could_start && options_.token_usage_low_watermark && r.token_usage < *options_.token_usage_low_watermark;
  };
  const bool mixed = std::any_of(ranks.begin(), ranks.end(), could) && !std::all_of(ranks.begin(), ranks.end(), could);
  if (mixed && !std::any_of(ranks.begin(), ranks.end(), idles) && delayed_ < options_.max_delay_passes - 1) {
    ++delayed_;
    return true;
  }
  delayed_ = 0;
  return false;
}

}  // namespace epsim
