// The expert loads of the step at hand, drawn once however many ask: several models price the same step when plans are
// compared, and what was drawn is what a plan made during the run observes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/domain/step_loads.h"

namespace epsim {

class StepDraws {
 public:
  // The source outlives it.
  explicit StepDraws(const ExpertLoadSource& source) : source_(source) {}

  // As ExpertLoadSource::draw_mixed(). Valid until two other batches have been drawn: a step that runs as two batches draws
  // for each.
  const StepLoads& draw(const StepAt& at, std::span<const std::int64_t> tokens, std::span<const std::int64_t> decodes);
  const ExpertLoadSource& source() const { return source_; }
  // Tells the draw that draw() gave last from all others; never 0.
  std::uint64_t last() const { return last_; }

 private:
  struct Drawn {
    std::uint64_t number = 0;  // of the draw; 0: none yet
    std::int64_t step = 0;     // divided by the source's hold_steps()
    Ticks start{};
    std::vector<std::int64_t> tokens, decodes;
    StepLoads loads;
  };
  const ExpertLoadSource& source_;
  std::array<Drawn, 2> drawn_;
  std::size_t next_ = 0;  // to be drawn over
  std::uint64_t last_ = 0, count_ = 0;
};

}  // namespace epsim
