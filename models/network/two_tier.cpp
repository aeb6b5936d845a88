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

// Calls use(out, in, n, first link) for the ports, then for the NIC groups.
template <class Use>
void for_each_tier(const TrafficMatrix& traffic, std::size_t gpus_per_group, std::size_t groups, Use use) {
  const std::size_t gpus = traffic.intra_out.size();
  use(traffic.intra_out.data(), traffic.intra_in.data(), gpus, std::size_t{0});
  for (std::size_t first = 0; first < groups; first += kGroups) {
    double out[kGroups], in[kGroups];
    const std::size_t n = std::min(kGroups, groups - first);
    for (std::size_t k = 0; k < n; ++k) {
      out[k] = in[k] = 0;
      for (std::size_t g = (first + k) * gpus_per_group; g < (first + k + 1) * gpus_per_group; ++g) {
        out[k] += traffic.inter_out[g];
        in[k] += traffic.inter_in[g];
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
  // On the way back, what came in goes out.
  int bottleneck(Direction direction) const {
    if (direction == Direction::kDispatch) {
      return out_link >= 0 || in_link < 0 ? out_link : in_link + 1;
    }
    return in_link >= 0 || out_link < 0 ? in_link : out_link + 1;
  }
};

TwoTierNetwork::TwoTierNetwork(const ClusterSpec& cluster, NetworkProfile profile, Transport transport, bool fair)
    : Network(cluster, std::move(profile), transport) {
  if (fair && cluster.nodes > 1 && groups_.groups_per_node > 0) {
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

void TwoTierNetwork::share_fairly(const TrafficMatrix& traffic, Tier& nic) const {
  if (fair_ != nullptr) {
    nic.wait_for(fair_->longest(traffic, nic.rows.max), 2 * traffic.intra_out.size());
  }
}

ExchangePrice TwoTierNetwork::price_of(const Tier& port, const Tier& nic, double row, Direction direction) const {
  const Tiers wire{Bytes(port.rows.max * row) / cluster_.node.intra_rate,
                   nic.resources > 0 ? Bytes(nic.rows.max * row) / groups_.rate : Seconds{}};
  const TierPrice slower = slower_tier(wire, direction);
  const Tier& tier = slower.between ? nic : port;
  return {slower.price, slower.between ? wire.between : wire.inside, slower.price.time * (1.0 - tier.mean_share()),
          tier.bottleneck(direction)};
}

ExchangePrice TwoTierNetwork::all_to_all(const TrafficMatrix& traffic, Bytes row, Direction direction,
                                         std::vector<double>& link_bytes) const {
  const double size = row.count();
  Tier port, nic;
  for_each_tier(traffic, groups_.gpus_per_group, nic_groups_,
                [&](const double* out, const double* in, std::size_t n, std::size_t link) {
                  (link == 0 ? port : nic).add(out, in, n, link);
                  const bool dispatch = direction == Direction::kDispatch;
                  add_bytes(dispatch ? out : in, dispatch ? in : out, n, size, link_bytes.data() + link);
                });
  share_fairly(traffic, nic);
  return price_of(port, nic, size, direction);
}

Network::LayerExchange TwoTierNetwork::dispatch_and_combine(const TrafficMatrix& traffic, Bytes dispatch_row,
                                                            Bytes combine_row, std::vector<double>& link_bytes) const {
  const double sent = dispatch_row.count(), back = combine_row.count();
  Tier port, nic;
  for_each_tier(traffic, groups_.gpus_per_group, nic_groups_,
                [&](const double* out, const double* in, std::size_t n, std::size_t link) {
                  (link == 0 ? port : nic).add(out, in, n, link);
                  add_bytes_and_back(out, in, n, sent, back, link_bytes.data() + link);
                });
  share_fairly(traffic, nic);
  return {price_of(port, nic, sent, Direction::kDispatch), price_of(port, nic, back, Direction::kCombine)};
}

// A GPU's port inside the node, and its NIC group, which carries its neighbours' bytes too.
Network::PortTiers TwoTierNetwork::port_tiers(const TrafficMatrix& traffic, Bytes row, Direction direction) const {
  // Combine carries the rows of dispatch back: what came in goes out.
  const bool dispatch = direction == Direction::kDispatch;
  const std::size_t gpus = traffic.intra_out.size();
  const auto wires = [&](const std::vector<double>& intra, const std::vector<double>& inter) {
    std::vector<Tiers> out(gpus);
    const std::size_t per_group = groups_.gpus_per_group;
    for (std::size_t g = 0; g < gpus; ++g) {
      out[g].inside = row * intra[g] / cluster_.node.intra_rate;
      if (groups_.groups_per_node > 0 && cluster_.nodes > 1) {
        const auto first = inter.begin() + g / per_group * per_group;
        out[g].between = row * std::accumulate(first, first + groups_.gpus_per_group, 0.0) / groups_.rate;
      }
    }
    return out;
  };
  return {wires(dispatch ? traffic.intra_in : traffic.intra_out, dispatch ? traffic.inter_in : traffic.inter_out),
          wires(dispatch ? traffic.intra_out : traffic.intra_in, dispatch ? traffic.inter_out : traffic.inter_in)};
}

void TwoTierNetwork::count(const TrafficMatrix& traffic, Bytes row, std::vector<double>& link_bytes) const {
  const std::size_t gpus = traffic.intra_out.size();
  for (std::size_t g = 0; g < gpus; ++g) {
    link_bytes[2 * g] += traffic.intra_out[g] * row.count();
    link_bytes[2 * g + 1] += traffic.intra_in[g] * row.count();
    if (groups_.groups_per_node > 0) {
      const std::size_t group = gpus + g / groups_.gpus_per_group;
      link_bytes[2 * group] += traffic.inter_out[g] * row.count();
      link_bytes[2 * group + 1] += traffic.inter_in[g] * row.count();
    }
  }
}

}  // namespace epsim
