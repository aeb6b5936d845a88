// The expert loads of the latest steps of a run, and how well they were balanced: what a plan during the run is made
// from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/domain/load_window.h"
#include "sim/domain/step_loads.h"

namespace epsim {

// Keeps `steps` steps, single precision: 4 bytes a (step, layer, expert), allocated as steps come.
class LoadHistory {
 public:
  LoadHistory(int layers, int experts, std::int64_t steps);

  // One step, the latest: the loads as they were drawn for `tokens` per DP rank; mean balancedness over its layers.
  void add(const StepLoads& loads, std::span<const std::int64_t> tokens, double balancedness);
  // The loads of the steps kept, in whole assignments, as an engine counts them: what single precision leaves over must
  // not tell equal experts apart. With `by_steps` they are its batches too, oldest first.
  LoadWindow window(bool by_steps) const;
  // Mean over the latest `steps` of the steps kept, at least one of which there is.
  double balancedness(std::int64_t steps) const;

 private:
  int layers_, experts_;
  std::size_t capacity_, next_ = 0;       // row that the next step takes once all are taken
  std::vector<std::vector<float>> rows_;  // [step][layer][expert] routed assignments
  std::vector<double> balancedness_;      // [step]
};

}  // namespace epsim
