// Draws of routing that several steps share.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "sim/domain/step_loads.h"

namespace epsim {

inline constexpr std::int64_t kHeldSteps = 16;  // that share a draw of routing in runs that compare designs

// Another source's loads, of which kHeldSteps steps in a row take one draw where they bring the same tokens: most of a
// run's time goes into draws and what they cost, and their means are the same.
class HeldLoads final : public ExpertLoadSource {
 public:
  explicit HeldLoads(std::shared_ptr<const ExpertLoadSource> loads) : loads_(std::move(loads)) {}

  int layers() const override { return loads_->layers(); }
  int experts() const override { return loads_->experts(); }
  bool counted() const override { return loads_->counted(); }
  bool changes() const override { return loads_->changes(); }
  std::int64_t hold_steps() const override { return kHeldSteps; }
  void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const override {
    loads_->draw(held(at), tokens, out);
  }
  void draw_mixed(const StepAt& at, std::span<const std::int64_t> tokens, std::span<const std::int64_t> decodes,
                  StepLoads& out) const override {
    loads_->draw_mixed(held(at), tokens, decodes, out);
  }

 private:
  static StepAt held(StepAt at) {
    at.number -= at.number % kHeldSteps;
    return at;
  }
  std::shared_ptr<const ExpertLoadSource> loads_;
};

}  // namespace epsim
