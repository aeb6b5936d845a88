// Loads that change during a run: a step takes them from the source whose time holds its start. The last source holds
// on after its time.
//   Ignores: a step that starts in one window and ends in the next has the loads of the first.
#pragma once

#include <memory>
#include <vector>

#include "sim/domain/load_window.h"
#include "sim/domain/step_loads.h"

namespace epsim {

class TimedLoadSource final : public ExpertLoadSource {
 public:
  struct Window {
    Ticks end{};  // from the start of the run
    std::shared_ptr<const ExpertLoadSource> loads;
  };
  // At least one window, by time; all have the same layers and experts.
  explicit TimedLoadSource(std::vector<Window> windows) : windows_(std::move(windows)) {}

  int layers() const override { return windows_.front().loads->layers(); }
  int experts() const override { return windows_.front().loads->experts(); }
  void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const override;
  void draw_mixed(const StepAt& at, std::span<const std::int64_t> tokens, std::span<const std::int64_t> decodes,
                  StepLoads& out) const override;

 private:
  const ExpertLoadSource& at(Ticks time) const;
  std::vector<Window> windows_;
};

// The mean mix over the windows, each weighted by how long it holds.
LoadWindow mean_of(const std::vector<LoadWindow>& windows, const std::vector<Seconds>& lengths);

}  // namespace epsim
