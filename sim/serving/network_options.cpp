#include "sim/serving/network_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "models/catalogue.h"
#include "sim/serving/read_names.h"

namespace epsim {
namespace {

template <class Enum, std::size_t N>
Enum read_enum(ConfigReader& in, const std::string& key, const std::array<std::string_view, N>& all) {
  const std::vector<std::string> names(all.begin(), all.end());
  const std::string name = in.choice(key, names, names.front());
  return static_cast<Enum>(std::find(names.begin(), names.end(), name) - names.begin());
}

constexpr double kScaledBlock = 128;  // elements of a row that share a scale, in DeepEP and in SGLang's quantisation
constexpr double kScaleBytes = 4;     // float32
constexpr double kLowLatencyHeader = 16;  // DeepEP internode_ll.cu: an int4 with the row's source, ahead of each row

double read_element_bytes(ConfigReader& in, const char* key) {
  return in.choice(key, {"bf16", "fp8"}, "bf16") == "bf16" ? 2.0 : 1.0 + kScaleBytes / kScaledBlock;
}

Dedup read_dedup(ConfigReader& in, Transport transport) {
  const std::string name(kTransportNames[static_cast<std::size_t>(transport)]);
  if (transport == Transport::kAllGatherReduceScatter) {
    in.check(!in.has("dedup"), "dedup", name + " sends every token to every GPU: there is nothing to send once.");
    return Dedup::kEverywhere;
  }
  const std::string own = transport == Transport::kDeepEpNormal ? "node"
                          : transport == Transport::kNcclP2p    ? "gpu"
                                                                : "none";
  const std::string dedup = in.choice("dedup", {"none", "gpu", "node"}, own);
  in.check(transport == Transport::kNcclP2p || dedup == own, "dedup",
           fmt::format("{} has its own way, which is '{}'; leave dedup out.", name, own));
  return dedup == "none" ? Dedup::kNone : dedup == "gpu" ? Dedup::kGpu : Dedup::kNode;
}

void read_gpus_per_node(ConfigReader& in, ClusterSpec& cluster) {
  NodeSpec& node = cluster.node;
  const auto gpus = in.maybe<int>("gpus_per_node", Bound::kPositive);
  if (!gpus) {
    return;
  }
  in.check(*gpus <= node.gpus, "gpus_per_node", fmt::format("{} has {} GPUs, not {}.", node.name, node.gpus, *gpus));
  in.check(node.nics * *gpus % node.gpus == 0, "gpus_per_node",
           fmt::format("{} NICs for {} GPUs do not divide: {} GPUs would have {:.2f} of them.", node.nics, node.gpus,
                       *gpus, static_cast<double>(node.nics) * *gpus / node.gpus));
  node.nics = node.nics * *gpus / node.gpus;
  node.gpus = *gpus;
}

FabricOptions read_fabric(ConfigReader& cluster_section, const ClusterSpec& cluster) {
  ConfigReader in = cluster_section.section("fabric");
  FabricOptions out;
  out.kind = read_enum<FabricKind>(in, "kind", kFabricNames);
  out.nodes_per_leaf = in.maybe<int>("nodes_per_leaf", Bound::kPositive).value_or(0);
  out.oversubscription = in.optional<double>("oversubscription", 1.0, Bound::kPositive);
  out.nic_attach_rate = in.maybe<BytesPerSecond>("nic_attach_rate", Bound::kPositive).value_or(kUnlimited);
  out.host_bridges = in.optional<int>("host_bridges", 1, Bound::kPositive);
  out.bridge_rate = in.maybe<BytesPerSecond>("bridge_rate", Bound::kPositive).value_or(BytesPerSecond{});
  out.missing_links = in.maybe<std::vector<std::string>>("missing_links").value_or(std::vector<std::string>{});
  in.check(out.kind == FabricKind::kSingleSwitch || (cluster.nodes > 1 && cluster.node.nics > 0), "kind",
           "one node has no fabric beyond itself; leave cluster.fabric.kind out.");
  in.check(out.host_bridges > 1 || !in.has("bridge_rate"), "bridge_rate",
           "bridge_rate is for nodes of several host_bridges.");
  return out;
}

[[noreturn]] void fail_fabric(const ConfigReader& fabric, const InputError& e) {
  const char* cut = fabric.has("missing_links") ? "missing_links" : "kind";
  fabric.fail(fabric.has(e.place.key) ? e.place.key : cut, e.problem);
}

// The faults of a network belong to the key that asked for it.
void try_network(const ClusterSpec& cluster, const NetworkProfile& profile, const NetworkOptions& options,
                 ConfigReader& network, ConfigReader& dispatch, ConfigReader& fabric) {
  try {
    make_network(cluster, profile, options);
  } catch (const InputError& e) {
    if (!e.place.file.empty()) {
      throw;
    }
    if (e.place.key == "model") {
      network.fail("model", e.problem);
    }
    if (e.place.key == "transport") {
      dispatch.fail("transport", e.problem);
    }
    fail_fabric(fabric, e);
  }
}

}  // namespace

ClusterSection read_cluster_section(ConfigReader& root) {
  ConfigReader in = root.required_section("cluster");
  const std::string node = name_or_path(in, "node");
  const int nodes = in.required<int>("nodes", Bound::kPositive);
  NodeEntry entry = at_key(in, "node", [&] { return find_node(node); });
  ClusterSection out{{entry.spec, nodes}, {}, std::move(entry.compute), std::move(entry.network)};
  read_gpus_per_node(in, out.cluster);
  out.cluster.validate();
  out.fabric = read_fabric(in, out.cluster);
  return out;
}

Topology read_topology(const Config& config) {
  ConfigReader root = config.root();
  const ClusterSection section = read_cluster_section(root);
  ConfigReader in = root.section("cluster");
  const ConfigReader fabric = in.section("fabric");
  in.finish();
  try {
    return Topology(plan_topology(section.cluster, section.fabric));
  } catch (const InputError& e) {
    fail_fabric(fabric, e);
  }
}

DispatchOptions read_dispatch(ConfigReader& root, const ClusterSpec& cluster, const NetworkProfile& profile, int hidden,
                              const FabricOptions& fabric) {
  ConfigReader network = root.section("network"), in = root.section("dispatch");
  DispatchOptions out;
  out.network.fabric = fabric;
  out.network.model = read_enum<NetworkModel>(network, "model", kNetworkModelNames);
  const auto transport = read_enum<Transport>(in, "transport", kTransportNames);
  out.network.transport = transport;
  out.dedup = read_dedup(in, transport);
  out.dispatch_bytes = read_element_bytes(in, "dispatch_dtype");
  out.combine_bytes = read_element_bytes(in, "combine_dtype");
  network.check(out.network.model != NetworkModel::kFairShare || out.dedup == Dedup::kGpu || out.dedup == Dedup::kNone,
                "model",
                "fair_share prices rows that are sent once per GPU or per expert (dispatch.dedup gpu or none); "
                "two_tier and max_min price the others.");
  const bool deep_ep = transport == Transport::kDeepEpNormal || transport == Transport::kDeepEpLowLatency;
  in.check(!deep_ep || out.combine_bytes == 2.0, "combine_dtype", "DeepEP combines in bf16.");
  if (transport == Transport::kDeepEpLowLatency) {
    out.dispatch_bytes += kLowLatencyHeader / hidden;
  }
  out.exchange_counts = in.optional<bool>("exchange_counts", transport == Transport::kNcclP2p);
  in.check(!out.exchange_counts || transport == Transport::kNcclP2p, "exchange_counts",
           "only nccl_p2p exchanges counts ahead; the other transports' times contain what they need.");
  ConfigReader cluster_section = root.section("cluster");
  ConfigReader fabric_section = cluster_section.section("fabric");
  try_network(cluster, profile, out.network, network, in, fabric_section);
  return out;
}

}  // namespace epsim
