// Two draws of one popularity out of one window of counts: what a plan from the first keeps on the second tells how much
// of its gain is the window's own noise.
//
//   Models : every assignment falls into either half with the same chance. Counts that are Poisson around a popularity
//            give halves that are independent draws of it, each of half the window.
//   Ignores: that the assignments of one token go to different experts, and tokens of one sequence to like ones.
//   Source : Poisson thinning, known as count splitting.
#pragma once

#include "sim/core/rng.h"
#include "sim/domain/load_window.h"

namespace epsim {

struct WindowHalves {
  LoadWindow first, second;
};

// A window with a count that is not whole holds expected loads, without noise: both halves are the window.
WindowHalves halves_of(const LoadWindow& window, RandomStream& random);

}  // namespace epsim
