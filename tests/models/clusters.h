// Clusters with round figures, so that tests can work times out by hand.
#pragma once

#include "sim/domain/cluster_spec.h"

namespace epsim::test {

// Nodes of four GPUs: 100 GB/s ports, two 10 GB/s NICs a node, so two GPUs share a NIC.
inline ClusterSpec small_cluster(int nodes) {
  ClusterSpec cluster;
  cluster.node.name = "small";
  cluster.node.gpu = {.name = "made up",
                      .bf16_peak = FlopsPerSecond(1e12),
                      .memory = Bytes(1e9),
                      .memory_bandwidth = BytesPerSecond(1e12),
                      .source = "made up for tests"};
  cluster.node.gpus = 4;
  cluster.node.intra_rate = BytesPerSecond(100e9);
  cluster.node.nics = 2;
  cluster.node.nic_rate = BytesPerSecond(10e9);
  cluster.nodes = nodes;
  return cluster;
}

}  // namespace epsim::test
