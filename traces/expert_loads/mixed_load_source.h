// Loads of several sources, whose shares of the tokens change over time: one source after another, or several at once.
//
//   Models : a step takes the shares at its start. Each rank's prompt tokens, and its decodes, are split in whole
//            tokens whose expectation is the shares; a row is the mean of the parts' rows, weighted by their tokens.
//   Ignores: that a prompt comes from one source as a whole; steps that last across a change of shares; single tokens
//            of a recording, where more than one source is active.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "sim/core/rng.h"
#include "sim/domain/load_window.h"
#include "sim/domain/step_loads.h"

namespace epsim {

// Parts of the tokens at times from the start of the run: linear between points, at the last one's value after it. Of
// two points at one time the second holds from there on. At least one point; the first is at 0.
struct SharePoint {
  Ticks time{};
  double share = 0;
};
using ShareCurve = std::vector<SharePoint>;
double share_at(const ShareCurve& curve, Ticks time);

class MixedLoadSource final : public ExpertLoadSource {
 public:
  struct Part {
    ShareCurve shares;  // over the sum of all parts', which is above 0 at any time
    std::shared_ptr<const ExpertLoadSource> loads;
  };
  // At least one part; all have the same layers and experts.
  MixedLoadSource(std::vector<Part> parts, Seed seed) : parts_(std::move(parts)), seed_(seed) {}

  int layers() const override { return parts_.front().loads->layers(); }
  int experts() const override { return parts_.front().loads->experts(); }
  bool counted() const override {
    return std::ranges::all_of(parts_, [](const Part& part) { return part.loads->counted(); });
  }
  bool changes() const override {
    return std::ranges::any_of(parts_, [](const Part& part) {
      return std::ranges::any_of(part.shares,
                                 [&](const SharePoint& p) { return p.share != part.shares.front().share; });
    });
  }
  void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const override {
    draw_mixed(at, tokens, {}, out);
  }
  void draw_mixed(const StepAt& at, std::span<const std::int64_t> tokens, std::span<const std::int64_t> decodes,
                  StepLoads& out) const override;

 private:
  std::vector<Part> parts_;
  Seed seed_;
};

// The windows' mean mix, each layer weighted as given, and the tokens of all that tell experts used together, in the
// same proportion; none where a window with weight has none. Weights are not negative, one is above 0.
LoadWindow mean_of(const std::vector<LoadWindow>& windows, const std::vector<double>& weights);

}  // namespace epsim
