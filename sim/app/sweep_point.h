// One point of a sweep: the scenario with the point's values, run.
#pragma once

#include "sim/app/sweep_run.h"
#include "sim/scenario/scenario.h"

namespace epsim::app {

// Points of a sweep: combinations x policies.
std::size_t count_points(const SweepRequest& request);

// The scenario of a point. Throws InputError.
Scenario scenario_at(const SweepRequest& request, std::size_t index);

// Runs a point. What goes wrong becomes its error; only an interruption is thrown (SearchInterrupted).
SweepPoint run_point(const SweepRequest& request, std::size_t index, const std::atomic<bool>* stop);

// The cells that say which point it is (point, the axes' values, policy, error), and their columns.
std::vector<ResultColumn> lead_columns(const SweepRequest& request);
std::vector<std::string> lead_cells(const SweepRequest& request, const SweepPoint& point);

}  // namespace epsim::app
