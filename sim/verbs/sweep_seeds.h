// A sweep over `seed`: points that differ in their seed alone, as one.
#pragma once

#include <optional>

#include "sim/verbs/sweep_point.h"

namespace epsim {

// A table "intervals" with a row per combination of the other axes, policy and figure of `results` (a row per point, as
// SweepOutcome has it): the figure's mean over seeds, the mean's 95 % interval (Student's t), and the same of its ratio
// to the first policy's, taken seed by seed. Nothing unless `seed` is an axis of several values.
std::optional<ResultTable> intervals_over_seeds(const SweepRequest& request, const ResultTable& results);

}  // namespace epsim
