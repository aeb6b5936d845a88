// Reads how GPUs are wired and how tokens travel: `cluster.fabric`, `network` and `dispatch` of a scenario.
//
//   cluster:
//     gpus_per_node: 64            part of the node's GPUs, with their share of its NICs (half an NVL72 rack, say)
//     fabric:
//       kind: leaf_spine           single_switch (default), leaf_spine, rail_optimised (one switch per NIC index)
//       nodes_per_leaf: 4          leaf_spine only
//       oversubscription: 2        rate of a leaf's or rail's links down over that of its links up; 1 = none
//       nic_attach_rate: 32GB/s    PCIe between a GPU (or a host bridge) and its NICs; absent = no limit of its own
//       host_bridges: 2            PCIe nodes: bridges that the node's GPUs are dealt to in order
//       bridge_rate: 20GB/s        between two host bridges, each direction
//       missing_links: [leaf0.up]  cables that are not there, by the names that links.csv and --topology show
//   network:
//     model: two_tier              the busiest link's bytes over its rate; or max_min: flows, slower
//   dispatch:
//     transport: nccl_p2p          `epsim list transports`: all there are
//     dedup: gpu                   nccl_p2p: what is sent once (none, gpu, node); the other transports have their own
//     dispatch_dtype: bf16         or fp8 (a byte an element and a 4-byte scale for every 128): the default of DeepEP
//                                  with fp8 models
//     combine_dtype: bf16          or fp8 (nccl_p2p and allgather_reducescatter)
//     exchange_counts: true        nccl_p2p: one more latency ahead, to tell how many rows will come
//     pxn: true                    nccl_p2p on NVLink nodes: by the NIC of the receiver's index (models/network/pxn.h)
#pragma once

#include <span>
#include <string_view>

#include "models/network/network.h"
#include "models/network/topology.h"
#include "models/step/step_model.h"
#include "sim/core/config.h"
#include "sim/domain/cluster_spec.h"
#include "sim/scenario/engine_defaults.h"

namespace epsim {

struct ClusterSection {
  ClusterSpec cluster;
  FabricOptions fabric;
  ComputeProfile compute;
  NetworkProfile network;
};
// Section `cluster` of `root`. Throws InputError.
ClusterSection read_cluster_section(ConfigReader& root);

// The graph that the section stands for; nothing else of the scenario is looked at.
Topology read_topology(const Config& config);

// What dispatch.transport may be: name, what it does, where it runs, and where that is stated.
struct TransportEntry {
  std::string_view name, summary, runs_on, source;
};
std::span<const TransportEntry> transport_entries();

// Sections `network` and `dispatch` of `root`. Builds the network once, so that a topology that does not connect its
// GPUs and a transport that the links' profiles do not know are refused here.
DispatchOptions read_dispatch(ConfigReader& root, const ClusterSpec& cluster, const NetworkProfile& profile,
                              const MoeSpec& model, const FabricOptions& fabric,
                              const EngineDefault<std::string>& transport);

// The `dispatch` of a pool, `in`: what it leaves out is as the scenario's section states it, `scenario`, but for what only the
// scenario's transport has; what neither states is the engine's default. `transport`: of this pool.
DispatchOptions read_pool_dispatch(ConfigReader& root, ConfigReader in, const ClusterSpec& cluster,
                                   const NetworkProfile& profile, const MoeSpec& model, const DispatchOptions& scenario,
                                   const EngineDefault<std::string>& transport);

}  // namespace epsim
