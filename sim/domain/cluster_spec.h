// What a cluster is: GPUs, the links inside a node, the NICs between nodes. Data-sheet figures only; how much of them
// is reached is a model's business (models/).
#pragma once

#include <string>

#include "sim/core/units.h"
#include "sim/domain/weight_type.h"

namespace epsim {

struct GpuSpec {
  std::string name;
  FlopsPerSecond bf16_peak{};  // dense
  FlopsPerSecond fp8_peak{};   // dense; 0 = the GPU has no fp8
  Bytes memory{};              // what a process can allocate
  BytesPerSecond memory_bandwidth{};
  std::string source;
  FlopsPerSecond fp4_peak{};   // dense; 0 = the GPU has no fp4
  BytesPerSecond host_rate{};  // of its link to the host's memory, in one direction; 0 = not known

  // Of products with weights of a type; 0 where the GPU has none.
  FlopsPerSecond product_rate(WeightType type) const {
    return FlopsPerSecond(epsim::product_rate(type, bf16_peak.count(), fp8_peak.count(), fp4_peak.count()));
  }
};

// How the GPUs of a node reach each other.
enum class IntraLink { kNvSwitch, kPcie };

struct NodeSpec {
  std::string name;
  GpuSpec gpu;
  int gpus = 0;
  IntraLink intra = IntraLink::kNvSwitch;
  BytesPerSecond intra_rate{};  // one GPU's port, each direction
  int gpus_per_host = 0;        // of a rack, the GPUs of a tray, which has an operating system of its own; else all
  int nics = 0;                 // NICs of the node, shared evenly by its GPUs; 0 = a single-node box
  BytesPerSecond nic_rate{};    // one NIC, each direction
  std::string nic_kind;         // "efa_v1", "infiniband", "ethernet", ...
  std::string source;
  // All NICs of the node together, each direction.
  BytesPerSecond node_rate() const { return nic_rate * nics; }
};

struct ClusterSpec {
  NodeSpec node;
  int nodes = 0;
  int gpus() const { return nodes * node.gpus; }
  void validate() const;  // throws InputError
};

// All that a policy may know of a cluster: how many GPUs there are and which share a node (gpu / gpus_per_node).
struct ClusterShape {
  int gpus = 0;
  int gpus_per_node = 0;
  int nodes() const { return gpus / gpus_per_node; }
  int node_of(int gpu) const { return gpu / gpus_per_node; }
};

inline ClusterShape shape_of(const ClusterSpec& cluster) { return {cluster.gpus(), cluster.node.gpus}; }

}  // namespace epsim
