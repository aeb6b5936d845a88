// Reads how GPUs are wired and how tokens travel: `cluster.fabric`, `network` and `dispatch` of a scenario.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "models/network/network.h"
#include "models/network/topology.h"
#include "models/step/step_model.h"
#include "sim/core/config.h"
#include "sim/domain/cluster_spec.h"
#include "sim/scenario/engine_defaults.h"

namespace epsim {

// Those of the four sections.
std::vector<SectionKeys> network_keys();

struct ClusterSection {
  ClusterSpec cluster;
  FabricOptions fabric;
  ComputeProfile compute;
  NetworkProfile network;
};
// Section `cluster` of `root`. Throws InputError.
ClusterSection read_cluster_section(ConfigReader& root);

// Leaves of each node the GPUs that `key` of `in` says, and their share of its NICs; without the key, all.
void read_gpus_per_node(ConfigReader& in, const Key& key, ClusterSpec& cluster);

// The graph that the section stands for, without routes; nothing else of the scenario is looked at.
TopologyPlan read_topology(const Config& config);

// What dispatch.transport may be: name, what it does, where it runs, and where that is stated.
struct TransportEntry {
  std::string_view name, summary, runs_on, source;
};
std::span<const TransportEntry> transport_entries();

// What `dispatch` is checked against.
struct DispatchSite {
  const ClusterSpec& cluster;
  const NetworkProfile& network;
  const ComputeProfile& compute;
  const MoeSpec& model;
  bool fp4_rows = false;  // EngineProfile's
};

// Sections `network` and `dispatch` of `root`. Builds the network once, so that a topology that does not connect its
// GPUs and a transport that the links' profiles do not know are refused here.
DispatchOptions read_dispatch(ConfigReader& root, const DispatchSite& site, const FabricOptions& fabric,
                              const EngineDefault<std::string>& transport);

// The `dispatch` of a pool, `in`: what it leaves out is as the scenario's section states it, `scenario`, but for what only the
// scenario's transport has; what neither states is the engine's default. `transport`: of this pool.
DispatchOptions read_pool_dispatch(ConfigReader& root, ConfigReader in, const DispatchSite& site,
                                   const DispatchOptions& scenario, const EngineDefault<std::string>& transport);

}  // namespace epsim
