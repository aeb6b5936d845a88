#include "models/network/two_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "sim/core/simd.h"
#include "sim/core/sum_and_max.h"

namespace epsim {
namespace {

constexpr std::size_t kGroups = 64;  // NIC groups at a time

using Lanes = double __attribute__((vector_size(32)));

// Rows of the busier direction of a tier's links.
EPSIM_SIMD SumAndMax busier_rows(const double* out, const double* in, std::size_t n) {
  constexpr std::size_t kWidth = sizeof(Lanes) / sizeof(double);
  Lanes max{}, sum{};
  std::size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    Lanes sent, received;
    std::memcpy(&sent, out + i, sizeof sent);
    std::memcpy(&received, in + i, sizeof received);
    const Lanes rows = sent > received ? sent : received;
    max = rows > max ? rows : max;
    sum += rows;
  }
  SumAndMax all;
  for (std::size_t k = 0; k < kWidth; ++k) {
    all.max = std::max(all.max, max[k]);
    all.sum += sum[k];
  }
  for (; i < n; ++i) {
    const double rows = std::max(out[i], in[i]);
    all.max = std::max(all.max, rows);
    all.sum += rows;
  }
  return all;
}

// What rows out and in add to the links, and the same rows on their way back.
EPSIM_SIMD void add_bytes(const double* __restrict out, const double* __restrict in, std::size_t n, double row,
                          double* __restrict link_bytes) {
  for (std::size_t i = 0; i < n; ++i) {
    link_bytes[2 * i] += out[i] * row;
    link_bytes[2 * i + 1] += in[i] * row;
  }
}
EPSIM_SIMD void add_bytes_and_back(const double* __restrict out, const double* __restrict in, std::size_t n, double row,
                                   double row_back, double* __restrict link_bytes) {
  for (std::size_t i = 0; i < n; ++i) {
    link_bytes[2 * i] = link_bytes[2 * i] + out[i] * row + in[i] * row_back;
    link_bytes[2 * i + 1] = link_bytes[2 * i + 1] + in[i] * row + out[i] * row_back;
  }
}

// Calls use(out, in, n, first link) for the ports, then for the NIC groups. `rows`: TrafficMatrix or PortRows.
template <class Rows, class Use>
void for_each_tier(const Rows& rows, std::size_t gpus_per_group, std::size_t groups, Use use) {
  const std::size_t gpus = rows.intra_out.size();
  use(rows.intra_out.data(), rows.intra_in.data(), gpus, std::size_t{0});
  for (std::size_t first = 0; first < groups; first += kGroups) {
    double out[kGroups], in[kGroups];
    const std::size_t n = std::min(kGroups, groups - first);
    for (std::size_t k = 0; k < n; ++k) {
      out[k] = in[k] = 0;
      for (std::size_t g = (first + k) * gpus_per_group; g < (first + k + 1) * gpus_per_group; ++g) {
        out[k] += rows.inter_out[g];
        in[k] += rows.inter_in[g];
      }
    }
    use(out, in, n, 2 * (gpus + first));
  }
}

}  // namespace

// The links of a tier, resource by resource: out, then in.
struct TwoTierNetwork::Tier {
  SumAndMax rows;  // of the busier direction of each resource
  std::size_t resources = 0;
  // The first link out and the first link in of the first resource that carries the most; -1 when it carries less.
  int out_link = -1, in_link = -1;

  // A receiver that has its last rows later than any link is busy. The others' links are idle for longer then.
  void wait_for(const FairShare::Wait& wait, std::size_t first_link) {
    if (wait.receiver >= 0) {
      rows.max = wait.rows;
      in_link = static_cast<int>(first_link) + 2 * wait.receiver;
      out_link = -1;
    }
  }
  // On the way back, what came in goes out.
  Tier reversed() const {
    Tier out = *this;
    std::swap(out.in_link, out.out_link);
    return out;
  }
  void add(const double* out, const double* in, std::size_t n, std::size_t first_link) {
    const SumAndMax here = busier_rows(out, in, n);
    rows.sum += here.sum;
    if (here.max > rows.max) {
      rows.max = here.max;
      std::size_t i = 0;
      while (out[i] != here.max && in[i] != here.max) {
        ++i;
      }
      const int link = static_cast<int>(first_link + 2 * i);
      out_link = out[i] == here.max ? link : -1;
      in_link = in[i] == here.max ? link : -1;
    }
    resources += n;
  }
  double mean_share() const {
    return rows.max > 0 ? std::min(1.0, rows.sum / static_cast<double>(resources) / rows.max) : 1.0;
  }
  int bottleneck() const { return out_link >= 0 || in_link < 0 ? out_link : in_link + 1; }
};

TwoTierNetwork::TwoTierNetwork(const ClusterSpec& cluster, NetworkProfile profile, const NetworkOptions& options)
    : Network(cluster, std::move(profile), options), rows_(std::make_unique<PortRows>()) {
  if (options.model == NetworkModel::kFairShare && pxn_) {
    rail_fair_ = std::make_unique<RailShare>(shape_of(cluster), groups_.gpus_per_group);
  } else if (options.model == NetworkModel::kFairShare && cluster.nodes > 1 && groups_.groups_per_node > 0) {
    fair_ = std::make_unique<FairShare>(shape_of(cluster), groups_.gpus_per_group);
  }
  for (int g = 0; g < cluster.gpus(); ++g) {
    links_.push_back({fmt::format("gpu{}.port.out", g), cluster.node.intra_rate, LinkEnd::kSends});
    links_.push_back({fmt::format("gpu{}.port.in", g), cluster.node.intra_rate, LinkEnd::kReceives});
  }
  for (int k = 0; k < groups_.groups_per_node * cluster.nodes; ++k) {
    const std::string name = fmt::format("node{}.nic{}", k / groups_.groups_per_node, k % groups_.groups_per_node);
    links_.push_back({name + ".out", groups_.rate, LinkEnd::kSends});
    links_.push_back({name + ".in", groups_.rate, LinkEnd::kReceives});
    ++nic_groups_;
  }
}

// Rows as they travel in that direction.
const PortRows& TwoTierNetwork::rows_of(const TrafficMatrix& traffic, Direction direction) const {
  if (pxn_) {
    pxn_->ports(traffic, direction, *rows_);
  } else if (direction == Direction::kDispatch) {
    *rows_ = {traffic.intra_out, traffic.intra_in, traffic.inter_out, traffic.inter_in};
  } else {
    *rows_ = {traffic.intra_in, traffic.intra_out, traffic.inter_in, traffic.inter_out};
  }
  return *rows_;
}

// `nic` has the links of that direction, and `rows_` its rows where they are relayed.
void TwoTierNetwork::share_fairly(const TrafficMatrix& traffic, Direction direction, Tier& nic) const {
  const std::size_t first_link = 2 * traffic.intra_out.size();
  if (rail_fair_ != nullptr) {
    nic.wait_for(rail_fair_->longest(traffic, direction, *rows_, nic.rows.max), first_link);
  }
  if (fair_ != nullptr) {  // a dispatch, whichever way it is read
    Tier there = direction == Direction::kDispatch ? nic : nic.reversed();
    there.wait_for(fair_->longest(traffic, nic.rows.max), first_link);
    nic = direction == Direction::kDispatch ? there : there.reversed();
  }
}

ExchangePrice TwoTierNetwork::price_of(const Tier& port, const Tier& nic, double row, Direction direction) const {
  const Tiers wire{Bytes(port.rows.max * row) / cluster_.node.intra_rate,
                   nic.resources > 0 ? Bytes(nic.rows.max * row) / groups_.rate : Seconds{}};
  const TierPrice slower = slower_tier(wire, direction);
  const Tier& tier = slower.between ? nic : port;
  return {slower.price, slower.between ? wire.between : wire.inside, slower.price.time * (1.0 - tier.mean_share()),
          tier.bottleneck()};
}

ExchangePrice TwoTierNetwork::all_to_all(const TrafficMatrix& traffic, Bytes row, Direction direction,
                                         std::vector<double>& link_bytes) const {
  const double size = row.count();
  Tier port, nic;
  for_each_tier(rows_of(traffic, direction), groups_.gpus_per_group, nic_groups_,
                [&](const double* out, const double* in, std::size_t n, std::size_t link) {
                  (link == 0 ? port : nic).add(out, in, n, link);
                  add_bytes(out, in, n, size, link_bytes.data() + link);
                });
  share_fairly(traffic, direction, nic);
  return price_of(port, nic, size, direction);
}

Network::LayerExchange TwoTierNetwork::dispatch_and_combine(const TrafficMatrix& traffic, Bytes dispatch_row,
                                                            Bytes combine_row, std::vector<double>& link_bytes) const {
  if (pxn_) {
    return Network::dispatch_and_combine(traffic, dispatch_row, combine_row, link_bytes);
  }
  const double sent = dispatch_row.count(), back = combine_row.count();
  Tier port, nic;
  for_each_tier(traffic, groups_.gpus_per_group, nic_groups_,
                [&](const double* out, const double* in, std::size_t n, std::size_t link) {
                  (link == 0 ? port : nic).add(out, in, n, link);
                  add_bytes_and_back(out, in, n, sent, back, link_bytes.data() + link);
                });
  share_fairly(traffic, Direction::kDispatch, nic);
  return {price_of(port, nic, sent, Direction::kDispatch),
          price_of(port.reversed(), nic.reversed(), back, Direction::kCombine)};
}

// A GPU's port inside the node, and its NIC group, which carries its neighbours' bytes too. Where messages are relayed,
// its bytes to other nodes leave by all NICs of its node, and enter those relays' ports.
Network::PortTiers TwoTierNetwork::port_tiers(const TrafficMatrix& traffic, Bytes row, Direction direction) const {
  const PortRows& rows = rows_of(traffic, direction);
  const std::size_t gpus = traffic.intra_out.size(), per_group = groups_.gpus_per_group;
  const auto wires = [&](const std::vector<double>& intra, const std::vector<double>& inter) {
    std::vector<Tiers> out(gpus);
    for (std::size_t g = 0; g < gpus; ++g) {
      out[g].inside = row * intra[g] / cluster_.node.intra_rate;
      if (groups_.groups_per_node > 0 && cluster_.nodes > 1) {
        const auto first = inter.begin() + g / per_group * per_group;
        out[g].between = row * std::accumulate(first, first + groups_.gpus_per_group, 0.0) / groups_.rate;
      }
    }
    return out;
  };
  PortTiers tiers{wires(rows.intra_in, rows.inter_in), wires(rows.intra_out, rows.inter_out)};
  if (pxn_) {
    const bool dispatch = direction == Direction::kDispatch;
    leave_by_relays(dispatch ? traffic.inter_out : traffic.inter_in, tiers);
  }
  return tiers;
}

// `sent` [GPU]: its own rows to other nodes.
void TwoTierNetwork::leave_by_relays(const std::vector<double>& sent, PortTiers& tiers) const {
  const std::size_t per_node = cluster_.node.gpus, per_group = groups_.gpus_per_group;
  for (std::size_t first = 0; first < sent.size(); first += per_node) {
    Seconds slowest_nic{};
    for (std::size_t relay = first; relay < first + per_node; relay += per_group) {
      slowest_nic = std::max(slowest_nic, tiers.out[relay].between);
    }
    for (std::size_t g = first; g < first + per_node; ++g) {
      tiers.out[g].between = sent[g] > 0 ? slowest_nic : Seconds{};
      for (std::size_t relay = first; sent[g] > 0 && relay < first + per_node; relay += per_group) {
        tiers.out[g].inside = std::max(tiers.out[g].inside, relay == g ? Seconds{} : tiers.in[relay].inside);
      }
    }
  }
}

void TwoTierNetwork::count(const TrafficMatrix& traffic, Bytes row, std::vector<double>& link_bytes) const {
  for_each_tier(rows_of(traffic, Direction::kDispatch), groups_.gpus_per_group, nic_groups_,
                [&](const double* out, const double* in, std::size_t n, std::size_t link) {
                  add_bytes(out, in, n, row.count(), link_bytes.data() + link);
                });
}

}  // namespace epsim
