#include "models/network/two_tier.h"

#include <fmt/format.h>

#include <algorithm>

namespace epsim {

TwoTierNetwork::TwoTierNetwork(const ClusterSpec& cluster, NetworkProfile profile, Transport transport)
    : Network(cluster, std::move(profile), transport) {
  for (int g = 0; g < cluster.gpus(); ++g) {
    links_.push_back({fmt::format("gpu{}.port.out", g), cluster.node.intra_rate, LinkEnd::kSends});
    links_.push_back({fmt::format("gpu{}.port.in", g), cluster.node.intra_rate, LinkEnd::kReceives});
  }
  for (int k = 0; k < groups_.groups_per_node * cluster.nodes; ++k) {
    const std::string name = fmt::format("node{}.nic{}", k / groups_.groups_per_node, k % groups_.groups_per_node);
    links_.push_back({name + ".out", groups_.rate, LinkEnd::kSends});
    links_.push_back({name + ".in", groups_.rate, LinkEnd::kReceives});
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
    port.add(out, in, static_cast<int>(2 * g));
  }
  const auto per_group = static_cast<std::size_t>(groups_.gpus_per_group);
  for (std::size_t link = 2 * gpus, g = 0; link < links_.size(); link += 2) {
    double out = 0, in = 0;
    for (const std::size_t last = g + per_group; g < last; ++g) {
      out += inter_out[g];
      in += inter_in[g];
    }
    link_bytes[link] += out * row.count();
    link_bytes[link + 1] += in * row.count();
    nic.add(out * row.count(), in * row.count(), static_cast<int>(link));
  }
  const Tiers wire{Bytes(port.busiest) / cluster_.node.intra_rate,
                   nic.resources > 0 ? Bytes(nic.busiest) / groups_.rate : Seconds{}};
  const TierPrice slower = slower_tier(wire, direction);
  const Tier& tier = slower.between ? nic : port;
  const double mean_share = tier.busiest > 0 ? std::min(1.0, tier.sum / tier.resources / tier.busiest) : 1.0;
  return {slower.price, slower.between ? wire.between : wire.inside, slower.price.time * (1.0 - mean_share),
          tier.bottleneck};
}

}  // namespace epsim
