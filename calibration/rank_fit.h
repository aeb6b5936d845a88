// What ranks of expert parallelism take where all tokens are on every GPU, fitted beside the price of their own rows.
#pragma once

#include <span>

#include "models/profile/fitted_op.h"
#include "sim/core/units.h"

namespace epsim {

// One measured rank.
struct RankPoint {
  double hidden = 0, intermediate = 0;
  Seconds alone{};    // price of its own rows alone
  double each = 0;    // of those rows to an expert
  double remote = 0;  // assignments to other GPUs' experts
  double time_s = 0;  // measured
  bool held_out = false;
};

// Sets the op's remote_rows, and the ranks' terms of each size of experts with enough points; nothing where there are too few in
// all.
void fit_ranks(FittedOp& op, std::span<const RankPoint> points);

}  // namespace epsim
