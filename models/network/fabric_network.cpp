#include "models/network/fabric_network.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "sim/core/check.h"

namespace epsim {
namespace {

constexpr std::size_t kLinksToRelay = 2;  // to the NVSwitch and from it

}  // namespace

FabricNetwork::FabricNetwork(const ClusterSpec& cluster, NetworkProfile profile, const NetworkOptions& options)
    : Network(cluster, std::move(profile), options),
      topology_(plan_topology(cluster, options.fabric), pxn_ ? LeaveBy::kReceiversRail : LeaveBy::kOwnNic),
      model_(options.model) {
  place_links();
  if (pxn_) {  // gathers are rings and trees, which nobody relays
    store_routes(Topology(plan_topology(cluster, options.fabric)));
    price_gather();
  }
  store_routes(topology_);
  if (!pxn_) {
    price_gather();
  }
}

void FabricNetwork::place_links() {
  const std::vector<TopologyVertex>& vertices = topology_.vertices();
  std::map<std::tuple<VertexKind, VertexKind, double>, int> classes;
  for (const TopologyLink& link : topology_.links()) {
    const TopologyVertex& from = vertices[link.from];
    const TopologyVertex& to = vertices[link.to];
    const LinkEnd end = from.kind == VertexKind::kGpu ? LinkEnd::kSends
                        : to.kind == VertexKind::kGpu ? LinkEnd::kReceives
                                                      : LinkEnd::kBetween;
    links_.push_back({link.name, link.rate, end});
    const bool inside = from.node >= 0 && to.node >= 0 && from.kind != VertexKind::kNic && to.kind != VertexKind::kNic;
    const auto number = static_cast<int>(classes.size());
    places_.push_back({!inside, classes.try_emplace({from.kind, to.kind, link.rate.count()}, number).first->second});
  }
  pair_links();
}

// The k-th link from one vertex to another belongs with the k-th back.
void FabricNetwork::pair_links() {
  std::map<std::pair<int, int>, std::vector<std::size_t>> between;
  const std::vector<TopologyLink>& links = topology_.links();
  for (std::size_t i = 0; i < links.size(); ++i) {
    between[{links[i].from, links[i].to}].push_back(i);
  }
  for (const auto& [ends, out] : between) {
    const auto back = between.find({ends.second, ends.first});
    for (std::size_t k = 0; k < out.size(); ++k) {
      places_[out[k]].back = back != between.end() && k < back->second.size() ? back->second[k] : out[k];
    }
  }
}

void FabricNetwork::store_routes(const Topology& topology) {
  route_.clear();
  first_.assign(1, 0);
  for (int from = 0; from < topology.gpus(); ++from) {
    for (int to = 0; to < topology.gpus(); ++to) {
      const std::vector<int> links = topology.route(from, to);
      route_.insert(route_.end(), links.begin(), links.end());
      first_.push_back(route_.size());
    }
  }
}

std::vector<double> FabricNetwork::carried_by(const std::vector<double>& pairs, Bytes row, bool dispatch) const {
  const std::size_t gpus = topology_.gpus();
  std::vector<double> carried(links_.size(), 0.0);
  for (std::size_t from = 0; from < gpus; ++from) {
    for (std::size_t to = 0; to < gpus; ++to) {
      const double bytes = pairs[dispatch ? from * gpus + to : to * gpus + from] * row.count();
      const std::size_t pair = from * gpus + to;
      for (std::size_t i = first_[pair]; bytes > 0 && i < first_[pair + 1]; ++i) {
        carried[route_[i]] += bytes;
      }
    }
  }
  return carried;
}

FabricNetwork::TimedFlows FabricNetwork::time_flows(const std::vector<double>& pairs, Bytes row, bool dispatch) const {
  const int gpus = topology_.gpus();
  TimedFlows out;
  for (int from = 0; from < gpus; ++from) {
    for (int to = 0; to < gpus; ++to) {
      const double rows = pairs[dispatch ? from * gpus + to : to * gpus + from];
      if (from != to && rows > 0) {
        out.flows.push_back({from, to, row * rows});
      }
    }
  }
  out.finish = max_min(topology_, out.flows).finish;
  return out;
}

Network::Tiers FabricNetwork::flow_times(const std::vector<double>& pairs, Bytes row, bool dispatch) const {
  const TimedFlows timed = time_flows(pairs, row, dispatch);
  Tiers out{};
  for (std::size_t f = 0; f < timed.flows.size(); ++f) {
    const bool inside = timed.flows[f].from / cluster_.node.gpus == timed.flows[f].to / cluster_.node.gpus;
    Seconds& last = inside ? out.inside : out.between;
    last = std::max(last, timed.finish[f]);
  }
  return out;
}

Network::PortTiers FabricNetwork::port_tiers(const TrafficMatrix& traffic, Bytes row, Direction direction) const {
  const bool dispatch = direction == Direction::kDispatch;
  const std::size_t gpus = topology_.gpus();
  const std::vector<double> pairs = traffic.pairs(), carried = carried_by(pairs, row, dispatch);
  PortTiers out{std::vector<Tiers>(gpus), std::vector<Tiers>(gpus)};
  for (std::size_t pair = 0; pair < gpus * gpus; ++pair) {
    const std::size_t from = pair / gpus, to = pair % gpus, links = first_[pair + 1] - first_[pair];
    const bool relayed = topology_.relay(static_cast<int>(from), static_cast<int>(to)) != static_cast<int>(from);
    const std::size_t hop = relayed ? kLinksToRelay : 0;
    if (!(pairs[dispatch ? pair : to * gpus + from] > 0)) {
      continue;
    }
    for (std::size_t i = 0; i < links; ++i) {
      const std::size_t link = route_[first_[pair] + i];
      const Seconds busy = Bytes(carried[link]) / links_[link].rate;
      const auto raise = [&](Tiers& tiers) {
        Seconds& max = places_[link].between ? tiers.between : tiers.inside;
        max = std::max(max, busy);
      };
      if (2 * i < links + hop) {
        raise(out.out[from]);
      }
      if (2 * (i + 1) > links + hop) {
        raise(out.in[to]);
      }
    }
  }
  if (model_ == NetworkModel::kMaxMin) {
    const TimedFlows timed = time_flows(pairs, row, dispatch);
    for (std::size_t f = 0; f < timed.flows.size(); ++f) {
      const bool inside = timed.flows[f].from / cluster_.node.gpus == timed.flows[f].to / cluster_.node.gpus;
      for (Tiers* tiers : {&out.out[timed.flows[f].from], &out.in[timed.flows[f].to]}) {
        Seconds& last = inside ? tiers->inside : tiers->between;
        last = std::max(last, timed.finish[f]);
      }
    }
  }
  return out;
}

void FabricNetwork::count(const TrafficMatrix& traffic, Bytes row, std::vector<double>& link_bytes) const {
  const std::vector<double> carried = carried_by(traffic.pairs(), row, true);
  for (std::size_t i = 0; i < carried.size(); ++i) {
    link_bytes[i] += carried[i];
  }
}

// As NCCL's rings, one for each GPU index, that pass through the nodes in order: a GPU sends on all parts of its index but those that
// the next node brings. So every node's NICs carry the buffer once, and so does a leaf's way up. What has come to a node
// goes from there to its other GPUs.
void FabricNetwork::price_gather() {
  const int gpus = topology_.gpus(), per_node = cluster_.node.gpus;
  TrafficMatrix traffic;
  traffic.clear(shape_of(cluster_));
  const double nodes = cluster_.nodes;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    traffic.add(gpu, (gpu + per_node) % gpus, nodes - 1);
    const int first = gpu - gpu % per_node;
    for (int to = first; to < first + per_node; ++to) {
      traffic.add(gpu, to, nodes);
    }
  }
  const std::vector<double> carried = carried_by(traffic.pairs(), Bytes(1.0 / gpus), true);
  for (std::size_t i = 0; i < carried.size(); ++i) {
    Seconds& max = places_[i].between ? gather_.between : gather_.inside;
    max = std::max(max, Bytes(carried[i]) / links_[i].rate);
  }
}

// Of the bottleneck's class, each link with the one back: mean bytes of the busier direction over the bottleneck's own.
double FabricNetwork::mean_share(const std::vector<double>& carried, int bottleneck) const {
  const LinkPlace place = places_[bottleneck];
  double sum = 0;
  int count = 0;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    if (places_[i].link_class == place.link_class) {
      sum += std::max(carried[i], carried[places_[i].back]);
      ++count;
    }
  }
  return std::min(1.0, sum / count / carried[bottleneck]);
}

ExchangePrice FabricNetwork::all_to_all(const TrafficMatrix& traffic, Bytes row, Direction direction,
                                        std::vector<double>& link_bytes) const {
  const bool dispatch = direction == Direction::kDispatch;
  const std::vector<double> pairs = traffic.pairs(), carried = carried_by(pairs, row, dispatch);
  Tiers busiest{};
  int inside = -1, between = -1;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    link_bytes[i] += carried[i];
    const Seconds busy = Bytes(carried[i]) / links_[i].rate;
    Seconds& max = places_[i].between ? busiest.between : busiest.inside;
    if (busy > max) {
      max = busy;
      (places_[i].between ? between : inside) = static_cast<int>(i);
    }
  }
  Tiers wire = busiest;
  if (model_ == NetworkModel::kMaxMin) {
    // A port that carries both tiers is busy on behalf of both, so neither is over before it.
    const Tiers flows = flow_times(pairs, row, dispatch);
    wire = {std::max(flows.inside, busiest.inside), std::max(flows.between, busiest.between)};
  }
  const TierPrice slower = slower_tier(wire, direction);
  // Flows of one tier may wait for a link of the other (a PCIe port), so the busiest of all is named.
  const bool name_between =
      model_ == NetworkModel::kMaxMin ? busiest.between >= busiest.inside && between >= 0 : slower.between;
  const int bottleneck = name_between ? between : inside;
  const double share = bottleneck >= 0 ? mean_share(carried, bottleneck) : 1.0;
  return {slower.price, slower.between ? wire.between : wire.inside, slower.price.time * (1.0 - share), bottleneck};
}

}  // namespace epsim
