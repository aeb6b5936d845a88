// Rows of one layer's dispatch pair by pair, for tests: made by hand, or expected of a TrafficModel by going through
// every slot for every sender.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/network/max_min.h"
#include "models/network/traffic.h"

namespace epsim {

struct PairRows {
  int gpus = 0;
  std::vector<double> rows;  // [source GPU][destination GPU]

  double at(int from, int to) const { return rows[from * gpus + to]; }
  double& at(int from, int to) { return rows[from * gpus + to]; }
};

// The same expectation as TrafficModel::layer with the same arguments. With Dedup::kNode a row that crosses nodes lands
// on the GPU of the sender's index and is fanned out from there; both hops are in the matrix.
PairRows expected_rows(const Placement& placement, const Parallelism& parallelism, const ClusterShape& shape,
                       Dedup dedup, int layer, const StepLoads& loads, std::span<const std::int64_t> tokens);

TrafficMatrix traffic_of(const PairRows& rows, const ClusterShape& shape);

// One flow per pair that exchanges anything, `row` bytes a row; combine carries the rows back.
std::vector<Flow> flows_of(const PairRows& rows, Bytes row, bool combine = false);

}  // namespace epsim
