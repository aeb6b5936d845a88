// Who sends how many rows to whom, pair by pair: the matrix whose sums TrafficModel counts directly. For flows,
// drawings and tests; O(GPUs x slots) a layer, so not for the hot path.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/network/max_min.h"
#include "models/network/traffic.h"

namespace epsim {

// Rows of one layer's dispatch, [source GPU][destination GPU]. Rows that stay on their GPU are not in it.
struct TrafficMatrix {
  int gpus = 0;
  std::vector<double> rows;

  double at(int from, int to) const {
    return rows[static_cast<std::size_t>(from) * static_cast<std::size_t>(gpus) + static_cast<std::size_t>(to)];
  }
  double& at(int from, int to) {
    return rows[static_cast<std::size_t>(from) * static_cast<std::size_t>(gpus) + static_cast<std::size_t>(to)];
  }
};

// The same expectation as TrafficModel::layer with the same arguments. With Dedup::kNode a row that crosses nodes lands
// on the GPU of the sender's index and is fanned out from there; both hops are in the matrix.
TrafficMatrix traffic_matrix(const Placement& placement, const Parallelism& parallelism, const ClusterShape& shape,
                             Dedup dedup, int layer, const StepLoads& loads, std::span<const std::int64_t> tokens);

// Sums of a matrix as TrafficModel counts them: by port inside a node, by NIC between nodes. Leaves `executed` and
// `touched` empty: a matrix does not know experts.
LayerTraffic sums_of(const TrafficMatrix& matrix, const ClusterShape& shape);

// One flow per pair that exchanges anything, `row` bytes a row; combine carries the rows back.
std::vector<Flow> flows_of(const TrafficMatrix& matrix, Bytes row, bool combine = false);

}  // namespace epsim
