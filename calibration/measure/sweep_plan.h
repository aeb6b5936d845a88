// What to measure, in which order, and how long it is likely to take.
//   Models : every operator's grid, in an order that covers the hull of its columns first and then fills the largest
//            gaps (farthest point first, in logarithms); operators take turns so that each has had its share of the
//            time whenever a sweep is cut off. Cost per point from a roofline at half of the peaks.
//   Source : farthest-first traversal (Gonzalez, "Clustering to minimize the maximum intercluster distance", 1985).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "calibration/measure/device.h"
#include "sim/domain/moe_spec.h"

namespace epsim::measure {

struct SweepRequest {
  std::vector<MoeSpec> models;      // shapes come from these
  std::vector<const OpSpec*> ops;   // in any order
  std::vector<double> expert_load;  // load per expert of one layer of a trace; empty: no points of kTrace
  StopRule rule;
};

// Every point of the operators that `device` does not waive. Equal inputs give the same list.
std::vector<PlannedPoint> plan_sweep(const SweepRequest& request, const Device& device);

// The grid of one operator, in grid order; `predicted` and `cost` are not filled in.
std::vector<PlannedPoint> grid_of(const OpSpec& op, const SweepRequest& request, const GpuFacts& facts);

// Indices of `points` (each a vector of the same length, not negative) in the order to measure: first few that hold
// the least and the greatest value of every column, then always the one farthest from all before it. After `most`
// points the rest follows in the order given.
std::vector<std::size_t> coverage_order(const std::vector<std::vector<double>>& points, std::size_t most = 1000);

// Time of one execution at half of the arithmetic peak, 0.7 of the memory's, 20 GB/s on the wire and 5 us a launch.
// Good for planning only. Peaks that are not known count as those of an A100.
Seconds predicted_time(const OpSpec& op, std::span<const double> values, const GpuFacts& facts);
// Wall time to measure a point whose execution takes `one`.
Seconds predicted_cost(const OpSpec& op, Seconds one, const StopRule& rule);

}  // namespace epsim::measure
