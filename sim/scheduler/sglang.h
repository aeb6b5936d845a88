// SGLang's rules: prompts first, a step of decodes only when there is no prompt to work on (or both, with mixed chunks);
// requests enter on an estimate of what the running ones will still need, and some are retracted when it fails.
#pragma once

#include <cstdint>

#include "sim/scheduler/scheduler.h"
#include "sim/scheduler/sglang_knobs.h"

namespace epsim {

class SglangScheduler final : public Scheduler {
 public:
  SglangScheduler(const ServingOptions& options, const RankContext& context);
  void on_idle() override { new_token_ratio_ = knobs_.ratio.init; }
  // Share of the tokens that running requests may still generate for which memory is kept.
  double new_token_ratio() const { return new_token_ratio_; }

 private:
  SglangScheduler(const ServingOptions& options, const RankContext& context, const SglangKnobs& knobs);

  // What is left of a step's budgets for prompts.
  struct Budget {
    std::int64_t chunk, input;
    double promised = 0;  // tokens that running requests and those of this step are expected to generate
    std::int64_t entered = 0;
  };
  enum class Entry { kNext, kStop, kNoMemory };

  void form_batch(Ticks now) override;
  void form_decodes() override;
  bool could_start_prompt() const override;
  void add_prompts(Ticks now);
  void continue_prompt(Budget& budget);
  void charge(Budget& budget, std::int32_t request, std::int64_t tokens, bool ends);
  void order_queue();
  Entry enter_head(Budget& budget, Ticks now);
  std::int64_t promised(std::int32_t request) const;
  bool fits_estimate(std::int32_t request, std::int64_t hit, const Budget& budget) const;
  Entry take_head(Budget& budget, std::int64_t hit, Ticks now);
  double room_left(const Budget& budget) const;
  bool secure_decodes();
  void retract_decodes();
  void decay_ratio();

  // Nothing enters until a request has given its memory back.
  void stop_admission(bool lacks_blocks) {
    full_at_ = knobs_.reserve_full ? -1 : departures();
    full_of_blocks_ = lacks_blocks;
  }
  bool full() const { return full_at_ == departures(); }

  SglangKnobs knobs_;
  double new_token_ratio_;
  std::int64_t full_at_ = -1;    // departures() when admission stopped
  bool full_of_blocks_ = false;  // for lack of memory, not at the limit of running requests
  Requeue retracted_to_;
};

}  // namespace epsim
