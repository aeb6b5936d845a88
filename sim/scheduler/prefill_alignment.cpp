#include "sim/scheduler/prefill_alignment.h"

#include <algorithm>

namespace epsim {

bool PrefillGate::holds(std::span<const PrefillRank> ranks) {
  holds_all_ = decodes_left_ > 0;
  if (holds_all_) {
    --decodes_left_;
    return true;
  }
  const bool between = wave_step_++ % options_.schedule_interval != 0;
  return between || (options_.max_delay_passes > 0 && delays(ranks)) || (options_.timeout_iters > 0 && balances(ranks));
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

bool PrefillGate::balances(std::span<const PrefillRank> ranks) {
  const auto all = [&](auto what) { return std::all_of(ranks.begin(), ranks.end(), what); };
  const bool decode = all([](const PrefillRank& r) { return r.decodes; });
  if (all([](const PrefillRank& r) { return r.could_start && r.has_slot; })) {
    waited_ = 0;
    batched_ = decode && batched_ < options_.batching_wait_iters ? batched_ + 1 : 0;
    return batched_ > 0;
  }
  waited_ = decode && waited_ + 1 < options_.timeout_iters ? waited_ + 1 : 0;
  return waited_ > 0 && std::any_of(ranks.begin(), ranks.end(), [](const PrefillRank& r) { return r.could_start; });
}

}  // namespace epsim
