#include "models/network/two_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/core/check.h"

namespace epsim {

TwoTierNetwork::TwoTierNetwork(const ClusterSpec& cluster, NetworkProfile profile)
    : cluster_(cluster), profile_(std::move(profile)), group_gpus_(1), groups_(0) {
  const NodeSpec& node = cluster.node;
  for (int g = 0; g < cluster.gpus(); ++g) {
    links_.push_back({fmt::format("gpu{}.port.out", g), node.intra_rate});
    links_.push_back({fmt::format("gpu{}.port.in", g), node.intra_rate});
  }
  if (node.nics == 0) {
    return;
  }
  // The smallest sets of GPUs that own whole NICs: p4de has 4 NICs for 8 GPUs, so 2 GPUs share one; p5 has 32, 4 a GPU.
  const int groups_per_node = std::gcd(node.gpus, node.nics);
  group_gpus_ = node.gpus / groups_per_node;
  group_rate_ = node.nic_rate * (static_cast<double>(node.nics) / groups_per_node);
  groups_ = groups_per_node * cluster.nodes;
  for (int k = 0; k < groups_; ++k) {
    const std::string name = fmt::format("node{}.nic{}", k / groups_per_node, k % groups_per_node);
    links_.push_back({name + ".out", group_rate_});
    links_.push_back({name + ".in", group_rate_});
  }
}

ExchangePrice TwoTierNetwork::all_to_all(const LayerTraffic& traffic, Bytes row, Direction direction,
                                         std::vector<double>& link_bytes) const {
  const bool forth = direction == Direction::kDispatch;
  const std::vector<double>& intra_out = forth ? traffic.intra_out : traffic.intra_in;
  const std::vector<double>& intra_in = forth ? traffic.intra_in : traffic.intra_out;
  const std::vector<double>& inter_out = forth ? traffic.inter_out : traffic.inter_in;
  const std::vector<double>& inter_in = forth ? traffic.inter_in : traffic.inter_out;
  const std::size_t gpus = intra_out.size();
  Tier port, nic;
  for (std::size_t g = 0; g < gpus; ++g) {
    const double out = intra_out[g] * row.count(), in = intra_in[g] * row.count();
    link_bytes[2 * g] += out;
    link_bytes[2 * g + 1] += in;
    port.add(std::max(out, in));
  }
  for (std::size_t k = 0; k < static_cast<std::size_t>(groups_); ++k) {
    double out = 0, in = 0;
    const std::size_t first = k * static_cast<std::size_t>(group_gpus_);
    for (std::size_t g = first; g < first + static_cast<std::size_t>(group_gpus_); ++g) {
      out += inter_out[g];
      in += inter_in[g];
    }
    link_bytes[2 * (gpus + k)] += out * row.count();
    link_bytes[2 * (gpus + k) + 1] += in * row.count();
    nic.add(std::max(out, in) * row.count());
  }
  ExchangePrice inside, between;
  if (gpus > 1 && cluster_.node.gpus > 1) {
    inside = price_tier(profile_.intra, cluster_.node.gpus, port, static_cast<double>(gpus), cluster_.node.intra_rate);
  }
  if (groups_ > 0 && cluster_.nodes > 1) {
    between = price_tier(profile_.inter, cluster_.gpus(), nic, groups_, group_rate_);
  }
  return between.price.time >= inside.price.time ? between : inside;
}

ExchangePrice TwoTierNetwork::price_tier(const LinkProfile& link, int gpus, const Tier& tier, double resources,
                                         BytesPerSecond rate) {
  const Seconds wire = Bytes(tier.busiest) / rate;
  const Price price = link.time(CollectiveKind::kAllToAll, gpus, wire);
  const double mean_share = tier.busiest > 0 ? std::min(1.0, tier.sum / resources / tier.busiest) : 1.0;
  return {price, wire, price.time * (1.0 - mean_share)};
}

Price TwoTierNetwork::latency() const {
  const LinkProfile& link = cluster_.nodes > 1 ? profile_.inter : profile_.intra;
  return cluster_.gpus() > 1 ? Price{Seconds(link.base_latency.value), link.base_latency.origin} : Price{};
}

Price TwoTierNetwork::within_node(CollectiveKind kind, int gpus, Bytes bytes) const {
  if (gpus <= 1 || bytes.count() <= 0) {
    return {};
  }
  EPSIM_CHECK(gpus <= cluster_.node.gpus, "a tensor-parallel group lies inside a node");
  // The profile's measure: the buffer once, but for the GPU's own part. An all-reduce passes it twice, and its curve
  // says so.
  const Seconds wire = bytes * ((gpus - 1.0) / gpus) / cluster_.node.intra_rate;
  return profile_.intra.time(kind, gpus, wire);
}

}  // namespace epsim
