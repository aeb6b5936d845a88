// A sweep over `seed`: points that differ in their seed alone, as one.
#pragma once

#include <functional>
#include <optional>

#include "sim/verbs/sweep_point.h"

namespace epsim {

// The table "intervals", without rows: a row per combination of the other axes, policy and figure of "results", with
// the figure's mean over seeds, the mean's 95 % interval (Student's t), and the same of its ratio to the first
// policy's, taken seed by seed. Nothing unless `seed` is an axis of several values.
std::optional<ResultTable> intervals_layout(const SweepRequest& request);
// Its rows, one after another; the points of one combination at a time are in memory. `columns` are those of "results",
// `result_of` gives a point's row of it.
void each_interval(const SweepRequest& request, const std::vector<ResultColumn>& columns,
                   const std::function<std::vector<Cell>(std::size_t point)>& result_of,
                   const std::function<void(std::vector<Cell>)>& row);

}  // namespace epsim
