// The topology that a ClusterSpec and a choice of fabric stand for.
//
//   Inside : every GPU has a port to the node's NVSwitch, or to its PCIe host bridge. NICs come in the groups that
//            two_tier uses, the smallest sets of GPUs that own whole NICs (p4de: 2 GPUs a NIC; p5: 4 NICs a GPU); a
//            group is one vertex with the rate of its NICs together. With an NVSwitch the GPU reaches its NICs beside
//            its port (PCIe); on a PCIe node NIC traffic takes the GPU's port and the bridge.
//   Between: one non-blocking switch; leaves of a few nodes under a spine; or one switch per NIC index ("rail") under a
//            spine. The spine is one vertex: its switches share traffic evenly, as with perfect spreading.
//   Names  : ports and NICs as in two_tier ("gpu3.port.out", "node0.nic1.in"), then "gpu3.nic.out" or
//            "node0.nic1.bridge.out" to the NIC, "leaf2.up", "rail0.down".
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "models/network/topology.h"
#include "sim/domain/cluster_spec.h"

namespace epsim {

enum class FabricKind { kSingleSwitch, kLeafSpine, kRailOptimised };
inline constexpr std::array<std::string_view, 3> kFabricNames = {"single_switch", "leaf_spine", "rail_optimised"};

struct FabricOptions {
  FabricKind kind = FabricKind::kSingleSwitch;
  int nodes_per_leaf = 0;         // leaf_spine only; the last leaf may have fewer nodes
  double oversubscription = 1.0;  // of a leaf or rail: rate of its links down over that of its links up
  // PCIe between a GPU (or a host bridge) and its NIC group, each direction. A ClusterSpec has no figure for it.
  BytesPerSecond nic_attach_rate = kUnlimited;
  int host_bridges = 1;                         // PCIe nodes only: GPUs are dealt to them in order
  BytesPerSecond bridge_rate{};                 // between two host bridges, each direction; needed for more than one
  std::vector<std::string> missing_links = {};  // by name, each direction for itself: cables that are not there
};

// Throws InputError when the options do not fit the fabric or the cluster.
TopologyPlan plan_topology(const ClusterSpec& cluster, const FabricOptions& options = {});

// GPUs that share a NIC group, and groups of a node; {0, 0} without NICs.
struct NicGroups {
  int gpus_per_group = 0, groups_per_node = 0;
  BytesPerSecond rate{};  // of a group, each direction
};
NicGroups nic_groups(const NodeSpec& node);

}  // namespace epsim
