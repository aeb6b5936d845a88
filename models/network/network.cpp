#include "models/network/network.h"

#include "sim/core/check.h"

namespace epsim {
CollectiveKind collective_of(Transport transport, Direction direction) {
  const bool dispatch = direction == Direction::kDispatch;
  switch (transport) {
    case Transport::kAllGatherReduceScatter:
      return dispatch ? CollectiveKind::kAllGather : CollectiveKind::kReduceScatter;
    case Transport::kDeepEpNormal:
      return dispatch ? CollectiveKind::kDeepEpDispatch : CollectiveKind::kDeepEpCombine;
    case Transport::kDeepEpLowLatency:
      return dispatch ? CollectiveKind::kDeepEpLowLatencyDispatch : CollectiveKind::kDeepEpLowLatencyCombine;
    case Transport::kNvlinkOneSided:
      return dispatch ? CollectiveKind::kNvlinkOneSidedDispatch : CollectiveKind::kNvlinkOneSidedCombine;
    case Transport::kAllReduce:
      return CollectiveKind::kAllReduce;
    case Transport::kAllGatherAllReduce:
    case Transport::kBroadcastAllReduce:
      return dispatch ? CollectiveKind::kAllGather : CollectiveKind::kAllReduce;
    case Transport::kNcclP2p:
      break;
  }
  return CollectiveKind::kAllToAll;
}

Network::Network(const ClusterSpec& cluster, NetworkProfile profile, const NetworkOptions& options)
    : cluster_(cluster),
      profile_(std::move(profile)),
      transport_(options.transport),
      groups_(nic_groups(cluster.node)) {
  if (options.pxn && may_relay(cluster.node) && cluster.nodes > 1 && groups_.groups_per_node > 0) {
    pxn_.emplace(shape_of(cluster), groups_.gpus_per_group);
  }
}

TrafficMatrix Network::slowed(const TrafficMatrix& traffic, Direction direction, std::span<const double> link_speed,
                              std::span<const double> nic_speed) const {
  return pxn_ ? pxn_->slowed(traffic, direction, link_speed, nic_speed) : traffic.slowed(link_speed, nic_speed);
}

Network::LayerExchange Network::dispatch_and_combine(const TrafficMatrix& traffic, Bytes dispatch_row,
                                                     Bytes combine_row, std::vector<double>& link_bytes) const {
  const ExchangePrice dispatch = all_to_all(traffic, dispatch_row, Direction::kDispatch, link_bytes);
  return {dispatch, all_to_all(traffic, combine_row, Direction::kCombine, link_bytes)};
}

Price Network::latency() const {
  const LinkProfile& link = cluster_.nodes > 1 ? profile_.inter : profile_.intra;
  return cluster_.gpus() > 1 ? link.base(cluster_.gpus()) : Price{};
}

Price Network::within_node(CollectiveKind kind, int gpus, Bytes bytes) const {
  if (gpus <= 1 || bytes.count() <= 0) {
    return {};
  }
  EPSIM_CHECK(gpus <= cluster_.node.gpus, "a tensor-parallel group fits in a node");
  // The profile's measure: the buffer once, but for the GPU's own part. An all-reduce passes it twice, and its curve
  // says so.
  const Seconds wire = bytes * ((gpus - 1.0) / gpus) / cluster_.node.intra_rate;
  return profile_.intra.time(kind, gpus, wire);
}

Network::TierPrice Network::slower_tier(const Tiers& wire, Direction direction) const {
  const CollectiveKind kind = collective_of(transport_, direction);
  TierPrice out;
  if (cluster_.gpus() > 1 && cluster_.node.gpus > 1) {
    out.price = profile_.intra.time(inside(kind), cluster_.node.gpus, wire.inside);
  }
  if (cluster_.nodes > 1 && cluster_.node.nics > 0) {
    const Price between = profile_.inter.time(kind, cluster_.gpus(), wire.between);
    if (between.time >= out.price.time) {
      out = {between, true};
    }
  }
  return out;
}

}  // namespace epsim
