#include "models/network/network.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/network/fabric_network.h"
#include "models/network/two_tier.h"
#include "sim/core/check.h"
#include "sim/core/error.h"

namespace epsim {
namespace {

// Ports and NICs are all there is to wait for: one switch between the nodes, and a GPU reaches its NIC beside its port.
bool plain(const ClusterSpec& cluster, const FabricOptions& fabric) {
  const bool shared_port = cluster.node.intra == IntraLink::kPcie && (cluster.nodes > 1 || fabric.host_bridges > 1);
  // Options that do not fit one switch are refused by the topology, not passed over here.
  return fabric.kind == FabricKind::kSingleSwitch && fabric.nodes_per_leaf == 0 && fabric.oversubscription == 1.0 &&
         fabric.host_bridges == 1 && fabric.nic_attach_rate == kUnlimited && fabric.missing_links.empty() &&
         !shared_port;
}

// A transport that was never measured on a link has no price there: DeepEP's kernels are not an all-to-all of NCCL.
void check_measured(const LinkProfile& link, Transport transport, const char* where) {
  for (const Direction direction : {Direction::kDispatch, Direction::kCombine}) {
    const CollectiveKind kind = collective_of(transport, direction);
    const bool stands_in = kind < CollectiveKind::kDeepEpDispatch;  // LinkProfile::time takes the all-to-all's curve
    if (!stands_in && std::none_of(link.curves.begin(), link.curves.end(),
                                   [&](const CollectiveCurve& curve) { return curve.kind == kind; })) {
      throw InputError({"", 0, "transport"},
                       fmt::format("{} was not measured {} ({} has no {} curve); choose nccl_p2p or "
                                   "allgather_reducescatter, or a node whose link profile has it.",
                                   kTransportNames[static_cast<std::size_t>(transport)], where, link.name,
                                   kCollectiveNames[static_cast<std::size_t>(kind)]));
    }
  }
}

}  // namespace

CollectiveKind collective_of(Transport transport, Direction direction) {
  const bool forth = direction == Direction::kDispatch;
  switch (transport) {
    case Transport::kAllGatherReduceScatter:
      return forth ? CollectiveKind::kAllGather : CollectiveKind::kReduceScatter;
    case Transport::kDeepEpNormal:
      return forth ? CollectiveKind::kDeepEpDispatch : CollectiveKind::kDeepEpCombine;
    case Transport::kDeepEpLowLatency:
      return forth ? CollectiveKind::kDeepEpLowLatencyDispatch : CollectiveKind::kDeepEpLowLatencyCombine;
    case Transport::kNcclP2p:
      break;
  }
  return CollectiveKind::kAllToAll;
}

Network::BothWays Network::there_and_back(const LayerTraffic& traffic, Bytes dispatch_row, Bytes combine_row,
                                          std::vector<double>& link_bytes) const {
  const ExchangePrice dispatch = all_to_all(traffic, dispatch_row, Direction::kDispatch, link_bytes);
  return {dispatch, all_to_all(traffic, combine_row, Direction::kCombine, link_bytes)};
}

Price Network::latency() const {
  const LinkProfile& link = cluster_.nodes > 1 ? profile_.inter : profile_.intra;
  return cluster_.gpus() > 1 ? Price{Seconds(link.base_latency.value), link.base_latency.origin} : Price{};
}

Price Network::within_node(CollectiveKind kind, int gpus, Bytes bytes) const {
  if (gpus <= 1 || bytes.count() <= 0) {
    return {};
  }
  EPSIM_CHECK(gpus <= cluster_.node.gpus, "a tensor-parallel group lies inside a node");
  // The profile's measure: the buffer once, but for the GPU's own part. An all-reduce passes it twice, and its curve
  // says so.
  const Seconds wire = bytes * ((gpus - 1.0) / gpus) / cluster_.node.intra_rate;
  return profile_.intra.time(kind, gpus, wire);
}

Network::TierPrice Network::slower_tier(const Tiers& wire, Direction direction) const {
  const CollectiveKind kind = collective_of(transport_, direction);
  TierPrice out;
  if (cluster_.gpus() > 1 && cluster_.node.gpus > 1) {
    out.price = profile_.intra.time(kind, cluster_.node.gpus, wire.inside);
  }
  if (cluster_.nodes > 1 && cluster_.node.nics > 0) {
    const Price between = profile_.inter.time(kind, cluster_.gpus(), wire.between);
    if (between.time >= out.price.time) {
      out = {between, true};
    }
  }
  return out;
}

std::unique_ptr<Network> make_network(const ClusterSpec& cluster, NetworkProfile profile,
                                      const NetworkOptions& options) {
  if (cluster.node.gpus > 1) {
    check_measured(profile.intra, options.transport, "inside the node");
  }
  if (cluster.nodes > 1) {
    check_measured(profile.inter, options.transport, "between the nodes");
  }
  if (options.model == NetworkModel::kFairShare && !plain(cluster, options.fabric)) {
    throw InputError({"", 0, "model"}, "fair_share knows GPU ports and NICs on one switch alone; max_min any fabric.");
  }
  if (options.model == NetworkModel::kMaxMin || !plain(cluster, options.fabric)) {
    return std::make_unique<FabricNetwork>(cluster, std::move(profile), options);
  }
  return std::make_unique<TwoTierNetwork>(cluster, std::move(profile), options.transport,
                                          options.model == NetworkModel::kFairShare);
}

}  // namespace epsim
