// vLLM V1's rules: decodes first, then prompts, out of one token budget; requests enter while blocks are free, and the
// latest are preempted when they run out.
#pragma once

#include <any>
#include <cstdint>
#include <optional>

#include "sim/scheduler/scheduler.h"
#include "sim/scheduler/vllm_knobs.h"

namespace epsim {

class VllmScheduler final : public Scheduler {
 public:
  VllmScheduler(const ServingOptions& options, const RankContext& context)
      : Scheduler(options, context,
                  {.leaves_when_handed_over = true,
                   .samples_again = true,
                   .keeps_received = true,
                   .shares_at_once = true,
                   .leaves_answers = true}),
        knobs_(std::any_cast<const VllmKnobs&>(options.knobs)) {}

 private:
  void form_batch(Ticks now) override;
  bool defers_prompts() const;
  bool preempt_for_decodes();
  bool continue_prompts(std::int64_t& budget);
  void enter_waiting(std::int64_t& budget, Ticks now);
  std::optional<std::int32_t> latest() const;
  std::int64_t longest_chunk(std::int64_t rest) const;

  VllmKnobs knobs_;
  bool prompts_were_left_ = false;  // by the latest step that could start some
};

}  // namespace epsim
