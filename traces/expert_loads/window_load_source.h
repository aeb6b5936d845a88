// Loads of every step from one window's mean mix.
//
//   Models : each step, every expert's count is drawn around T * pi (T tokens, pi its chance per token) with variance
//            T * pi * (1 - pi) * overdispersion. Few rows an expert are counted (count_draws.h); of more the draw is a
//            sum of eight uniform bytes, standardised: mean 0, variance 1, excess kurtosis -0.15, within +-4.88
//            deviations: near normal and cheap. It is clamped to [0, T], and the row is scaled to sum to T * top_k.
//   Ignores: covariance beyond that of the fixed sum; correlation between steps and layers; that the clamp lifts experts
//            that are rare beside the mean of a larger row.
//   Cost   : about 1 ns per expert (tests/bench/traces.cpp); 6 of few rows.
#pragma once

#include <vector>

#include "sim/core/rng.h"
#include "sim/domain/load_window.h"
#include "sim/domain/step_loads.h"

namespace epsim {

class WindowLoadSource final : public ExpertLoadSource {
 public:
  // Every layer of `window` must have load, no expert more than 1 / top_k of it. `overdispersion` 0: no variation,
  // every step brings the mean mix.
  WindowLoadSource(const LoadWindow& window, int top_k, double overdispersion, Seed seed);

  int layers() const override { return layers_; }
  int experts() const override { return experts_; }
  bool counted() const override { return StepLoads::drawn_as_counts(overdispersion_); }
  // One source: all DP ranks draw from the same mix. Depends on the seed, the step and the sum of `tokens` alone; with
  // no tokens at all the loads are the mean mix.
  void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const override;

 private:
  const float* mean_of(int layer) const { return mean_.data() + static_cast<std::size_t>(layer) * stride_; }
  std::uint64_t row_key(std::int64_t step, int layer) const;
  void draw_few(std::int64_t step, int trials, StepLoads& out) const;
  void draw_around(std::int64_t step, float inverse_root_tokens, StepLoads& out) const;

  int layers_, experts_;
  std::size_t stride_;  // experts, rounded up to whole blocks
  float top_k_;
  double overdispersion_;
  std::uint64_t key_;
  std::vector<float> mean_;       // [layer][stride] pi, 0 in the padding
  std::vector<float> deviation_;  // [layer][stride] of the draw for one token, per standard deviation of the byte sum
};

}  // namespace epsim
