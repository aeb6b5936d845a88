// TensorRT-LLM's rules: decodes first, then prompts, out of one token budget; a request enters with memory for all of its
// input and output, so that none is ever evicted.
#pragma once

#include <any>
#include <cstdint>
#include <vector>

#include "sim/scheduler/scheduler.h"
#include "sim/scheduler/trtllm_knobs.h"

namespace epsim {

class TrtllmScheduler final : public Scheduler {
 public:
  TrtllmScheduler(const ServingOptions& options, const RankContext& context)
      : Scheduler(options, context, {.reserve_full = true, .leaves_when_handed_over = true, .keeps_received = true}),
        knobs_(std::any_cast<const TrtllmKnobs&>(options.knobs)) {}

 private:
  // Prompts that may run in a step: tokens of each one under way, then of requests from the head of the queue.
  struct Prompts {
    std::vector<std::int64_t> partial, entering;
    std::int64_t whole = 0;     // tokens of all of these requests' prompts
    bool lacks_blocks = false;  // the next in the queue lacks memory
    bool none() const { return partial.empty() && entering.empty(); }
  };

  void form_batch(Ticks now) override;
  bool could_start_prompt() const override { return !schedule().none(); }
  Prompts schedule() const;
  std::int64_t chunk(std::int64_t rest, std::int64_t budget) const;
  bool waits_for_more(const Prompts& prompts);

  TrtllmKnobs knobs_;
  std::int64_t waited_ = 0;  // steps in a row
};

}  // namespace epsim
