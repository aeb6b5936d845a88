// What a diagnosis of recorded expert counts leaves behind: plain values, written by diagnosis.h, read by sim/report.
#pragma once

#include <vector>

#include "sim/cluster/rebalance_price.h"

namespace epsim {

// Steps between two rebalances: SGLang's eplb_rebalance_num_iterations.
inline constexpr double kStepsBetweenRebalances = 1000;

struct Diagnosis {
  // Experts in order on the scored windows: max / mean of the GPUs, and of the experts.
  double imbalance = 1, worst_imbalance = 1;            // mean over layers, and of the worst one
  int worst_layer = 0;                                  // its model layer number
  double hottest_expert = 1, worst_hottest_expert = 1;  // mean over layers, and of the worst one
  int worst_expert_layer = 0;
  // [windows] What a plan of placement and copies from one half of a window's assignments (window_halves.h) balances on
  // the other half of the window `i` later, over what a plan of that window's own first half balances there; [0] = 1.
  // Drift alone: both have the noise of half a window. Empty where there is nothing to balance.
  std::vector<double> kept;
  // Of what such a plan balances on its own half, the share on the other one: the rest is noise.
  double repeats = 1;
  double window_tokens = 0;  // mean
  int windows = 0;
  bool scored_later = false;  // plans were made from other windows than they are scored on
  // [seed] completed requests/s in saturation.
  std::vector<double> in_order, placement, copies, perfect;
  int copies_per_layer = 0;
  double kv_lost_share = 0;
  RebalancePrice move_placement, move_copies;
  double step_s = 0;  // mean time of a step with placement alone
  // Of the time, when there is one every kStepsBetweenRebalances steps.
  double time_share_of(const RebalancePrice& move) const {
    return move.pause.count() / (move.pause.count() + step_s * kStepsBetweenRebalances);
  }
};

}  // namespace epsim
