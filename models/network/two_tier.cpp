#include "models/network/two_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sim/core/widest_vectors.h"

namespace epsim {
namespace {

constexpr std::size_t kGroups = 64;  // NIC groups at a time

// What the busier direction of a tier's links carries, in rows: the most, and over all of them.
struct Busiest {
  double most = 0, sum = 0;
};

using Lanes = double __attribute__((vector_size(32)));

EPSIM_WIDEST_VECTORS Busiest busiest_of(const double* out, const double* in, std::size_t n) {
  constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(double);
  Lanes most{}, sum{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Lanes sent, received;
    std::memcpy(&sent, out + i, sizeof sent);
    std::memcpy(&received, in + i, sizeof received);
    const Lanes rows = sent > received ? sent : received;
    most = rows > most ? rows : most;
    sum += rows;
  }
  Busiest all;
  for (std::size_t k = 0; k < kLanes; ++k) {
    all.most = std::max(all.most, most[k]);
    all.sum += sum[k];
  }
  for (; i < n; ++i) {
    const double rows = std::max(out[i], in[i]);
    all.most = std::max(all.most, rows);
    all.sum += rows;
  }
  return all;
}

EPSIM_WIDEST_VECTORS void add_bytes(const double* __restrict out, const double* __restrict in, std::size_t n,
                                    double row, double* __restrict link_bytes) {
  for (std::size_t i = 0; i < n; ++i) {
    link_bytes[2 * i] += out[i] * row;
    link_bytes[2 * i + 1] += in[i] * row;
  }
}

// The links of a tier, resource by resource: out, then in.
struct Tier {
  Busiest busiest;
  std::size_t resources = 0;
  int bottleneck = -1;  // the first link that carries the most; -1 when nothing moved

  void add(const double* out, const double* in, std::size_t n) {
    const Busiest here = busiest_of(out, in, n);
    busiest.sum += here.sum;
    if (here.most > busiest.most) {
      busiest.most = here.most;
      std::size_t i = 0;
      while (out[i] != here.most && in[i] != here.most) {
        ++i;
      }
      bottleneck = static_cast<int>(2 * (resources + i)) + (out[i] == here.most ? 0 : 1);
    }
    resources += n;
  }
  double mean_share() const {
    return busiest.most > 0 ? std::min(1.0, busiest.sum / static_cast<double>(resources) / busiest.most) : 1.0;
  }
};

}  // namespace

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
  const double size = row.count();
  Tier port, nic;
  port.add(intra_out.data(), intra_in.data(), gpus);
  add_bytes(intra_out.data(), intra_in.data(), gpus, size, link_bytes.data());
  const auto per_group = static_cast<std::size_t>(groups_.gpus_per_group);
  const std::size_t groups = links_.size() / 2 - gpus;
  for (std::size_t first = 0; first < groups; first += kGroups) {
    double out[kGroups], in[kGroups];
    const std::size_t n = std::min(kGroups, groups - first);
    for (std::size_t k = 0; k < n; ++k) {
      out[k] = in[k] = 0;
      for (std::size_t g = (first + k) * per_group; g < (first + k + 1) * per_group; ++g) {
        out[k] += inter_out[g];
        in[k] += inter_in[g];
      }
    }
    nic.add(out, in, n);
    add_bytes(out, in, n, size, link_bytes.data() + 2 * (gpus + first));
  }
  const Tiers wire{Bytes(port.busiest.most * size) / cluster_.node.intra_rate,
                   groups > 0 ? Bytes(nic.busiest.most * size) / groups_.rate : Seconds{}};
  const TierPrice slower = slower_tier(wire, direction);
  const Tier& tier = slower.between ? nic : port;
  const int first_link = slower.between ? static_cast<int>(2 * gpus) : 0;
  return {slower.price, slower.between ? wire.between : wire.inside, slower.price.time * (1.0 - tier.mean_share()),
          tier.bottleneck < 0 ? -1 : first_link + tier.bottleneck};
}

}  // namespace epsim
