// FabricNetwork: any topology, link by link. Against TwoTierNetwork where both apply, against arithmetic where only
// this one does, and two_tier against max_min over the same graphs.
#include "models/network/fabric_network.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "models/network/make_network.h"
#include "models/network/two_tier.h"
#include "sim/core/error.h"
#include "sim/core/rng.h"
#include "tests/models/clusters.h"
#include "tests/models/pair_rows.h"
#include "tests/models/profiles.h"
#include "tests/support/errors.h"

using namespace epsim;
using namespace epsim::literals;

namespace {

const Bytes kRow(1e6);

bool same(double a, double b) { return std::abs(a / b - 1.0) <= 1e-9; }

NetworkProfile no_latency(const ClusterSpec& cluster) {
  return {test::plain_link(0, 1.0, cluster.node.gpus), test::plain_link(0, 1.0, cluster.gpus())};
}

TrafficMatrix traffic_of(const ClusterSpec& cluster, const PairRows& matrix) {
  return traffic_of(matrix, shape_of(cluster));
}

// Every pair `rows`, or around it: senders 1 : 3, pairs 1 : 3.
PairRows matrix_of(const ClusterSpec& cluster, double rows, std::uint64_t random_seed = 0) {
  const auto gpus = static_cast<std::size_t>(cluster.gpus());
  PairRows out{cluster.gpus(), std::vector<double>(gpus * gpus)};
  RandomStream random(Seed{random_seed}, "pairs");
  for (int from = 0; from < out.gpus; ++from) {
    const double tokens = random_seed == 0 ? 1.0 : 0.5 + random.uniform();
    for (int to = 0; to < out.gpus; ++to) {
      const double share = random_seed == 0 ? 1.0 : 0.5 + random.uniform();
      out.at(from, to) = from == to ? 0.0 : rows * tokens * share;
    }
  }
  return out;
}

struct Exchange {
  double seconds = 0;
  std::string bottleneck;
};

Exchange exchange(Network& network, const TrafficMatrix& traffic, Direction direction = Direction::kDispatch) {
  std::vector<double> carried(network.links().size());
  const ExchangePrice price = network.all_to_all(traffic, kRow, direction, carried);
  return {price.price.time.count(),
          price.bottleneck < 0 ? "" : network.links()[static_cast<std::size_t>(price.bottleneck)].name};
}

Exchange exchange(const ClusterSpec& cluster, const FabricOptions& fabric, NetworkModel model, const PairRows& matrix) {
  FabricNetwork network(cluster, no_latency(cluster), {.model = model, .fabric = fabric});
  return exchange(network, traffic_of(cluster, matrix));
}

}  // namespace

TEST_CASE("on one switch it is TwoTierNetwork: times, stragglers, bytes of every port and NIC, bottleneck") {
  const ClusterSpec cluster = test::small_cluster(3);
  const NetworkProfile profile{test::plain_link(10e-6, 0.5, 4), test::plain_link(100e-6, 0.8, 12)};
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const TrafficMatrix traffic = traffic_of(cluster, matrix_of(cluster, 40, seed));
    TwoTierNetwork closed(cluster, profile);
    FabricNetwork graph(cluster, profile, {});
    CHECK(same(closed.over_all(CollectiveKind::kAllGather, Bytes(1e8)).time.count(),
               graph.over_all(CollectiveKind::kAllGather, Bytes(1e8)).time.count()));
    for (const Direction direction : {Direction::kDispatch, Direction::kCombine}) {
      std::vector<double> a(closed.links().size()), b(graph.links().size());
      const ExchangePrice fast = closed.all_to_all(traffic, kRow, direction, a);
      const ExchangePrice slow = graph.all_to_all(traffic, kRow, direction, b);
      Network::PortPrices of_closed, of_graph;
      closed.port_prices(traffic, kRow, direction, of_closed);
      graph.port_prices(traffic, kRow, direction, of_graph);
      for (std::size_t g = 0; g < 12; ++g) {
        CHECK(same(of_closed.in[g].time.count(), of_graph.in[g].time.count()));
        CHECK(same(of_closed.out[g].time.count(), of_graph.out[g].time.count()));
      }
      CHECK(same(fast.price.time.count(), slow.price.time.count()));
      CHECK(same(fast.wire.count(), slow.wire.count()));
      CHECK(std::abs(fast.straggler.count() - slow.straggler.count()) < 1e-9 * fast.price.time.count());
      for (std::size_t i = 0; i < a.size(); ++i) {
        const auto at = std::find_if(graph.links().begin(), graph.links().end(),
                                     [&](const Network::Link& link) { return link.name == closed.links()[i].name; });
        REQUIRE(at != graph.links().end());
        CHECK(same(b[static_cast<std::size_t>(at - graph.links().begin())], a[i]));
      }
      if (seed > 0) {  // no ties
        CHECK(closed.links()[static_cast<std::size_t>(fast.bottleneck)].name ==
              graph.links()[static_cast<std::size_t>(slow.bottleneck)].name);
      }
    }
  }
}

TEST_CASE("behind an oversubscribed leaf every GPU's own bytes, and an all-gather, wait for the way up") {
  // 4 nodes of 4 GPUs, two a leaf; every pair 1 row of 1 MB: 64 MB up a leaf at 10 GB/s, as below.
  const ClusterSpec cluster = test::small_cluster(4);
  const FabricOptions fabric{.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 2, .oversubscription = 4.0};
  PairRows matrix = matrix_of(cluster, 1);
  for (const NetworkModel model : {NetworkModel::kTwoTier, NetworkModel::kMaxMin}) {
    CAPTURE(kNetworkModelNames[static_cast<std::size_t>(model)]);
    const FabricNetwork network(cluster, no_latency(cluster), {.model = model, .fabric = fabric});
    const Network::PortWires wires = network.port_wires(traffic_of(cluster, matrix), kRow);
    for (std::size_t g = 0; g < 16; ++g) {
      CHECK(same(wires.in[g].count(), 6.4e-3));
      CHECK(same(wires.out[g].count(), 6.4e-3));
    }
    // Of 160 MB each of the four GPUs of a leaf's last node sends three nodes' parts of 10 MB up: 120 MB at 10 GB/s; a
    // node's two NICs would take them at 20 GB/s = 6 ms.
    CHECK(same(network.over_all(CollectiveKind::kAllGather, Bytes(160e6)).time.count(), 12e-3));
  }
  // GPU 0 alone sends to its neighbour: 1 MB over two ports, and nobody else is busy.
  std::fill(matrix.rows.begin(), matrix.rows.end(), 0.0);
  matrix.at(0, 1) = 1;
  const FabricNetwork network(cluster, no_latency(cluster), {.fabric = fabric});
  const Network::PortWires wires = network.port_wires(traffic_of(cluster, matrix), kRow);
  CHECK(same(wires.out[0].count(), 1e-5));
  CHECK(same(wires.in[1].count(), 1e-5));
  CHECK(wires.in[0].count() == 0);
  CHECK(wires.out[5].count() == 0);
  std::vector<double> carried(network.links().size());
  network.count(traffic_of(cluster, matrix), kRow, carried);
  CHECK(std::count(carried.begin(), carried.end(), 1e6) == 2);
}

TEST_CASE("an oversubscribed leaf or rail is one more tier of links, worked out by hand") {
  // 4 nodes of 4 GPUs, 2 NICs of 10 GB/s a node; every pair 1 row of 1 MB. A node sends 4 x 12 = 48 MB to the others.
  const ClusterSpec cluster = test::small_cluster(4);
  const PairRows matrix = matrix_of(cluster, 1);
  for (const NetworkModel model : {NetworkModel::kTwoTier, NetworkModel::kMaxMin}) {
    CAPTURE(kNetworkModelNames[static_cast<std::size_t>(model)]);
    // NICs alone: 24 MB each at 10 GB/s = 2.4 ms.
    CHECK(same(exchange(cluster, {}, model, matrix).seconds, 2.4e-3));
    // Two nodes a leaf: 8 GPUs x 8 = 64 MB up at 4 x 10 / 4 = 10 GB/s = 6.4 ms.
    const Exchange leaf = exchange(
        cluster, {.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 2, .oversubscription = 4.0}, model, matrix);
    CHECK(same(leaf.seconds, 6.4e-3));
    CHECK(leaf.bottleneck == "leaf0.up");
    // Two rails, 4 nodes each: half of a NIC's 24 MB goes to the other rail, 4 x 12 = 48 MB at 40 / 8 = 5 GB/s.
    const Exchange rail =
        exchange(cluster, {.kind = FabricKind::kRailOptimised, .oversubscription = 8.0}, model, matrix);
    CHECK(same(rail.seconds, 9.6e-3));
    CHECK(rail.bottleneck == "rail0.up");
    // Oversubscription that no traffic meets costs nothing: with 2 : 1, 64 MB at 20 GB/s = 3.2 ms is still more than
    // the NICs' 2.4; with 1 : 1 it is 1.6.
    CHECK(
        same(exchange(cluster, {.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 2}, model, matrix).seconds, 2.4e-3));
  }
}

TEST_CASE("PCIe: a port carries both tiers, and host bridges meet over their own link") {
  ClusterSpec cluster = test::small_cluster(4);
  cluster.node.intra = IntraLink::kPcie;
  cluster.node.intra_rate = 5_GBps;
  const PairRows matrix = matrix_of(cluster, 1);
  for (const NetworkModel model : {NetworkModel::kTwoTier, NetworkModel::kMaxMin}) {
    // A GPU sends 3 MB inside and 12 MB outside over its 5 GB/s port: 3 ms, more than its NIC's 24 MB / 10 GB/s.
    const Exchange one = exchange(cluster, {}, model, matrix);
    CHECK(same(one.seconds, 3e-3));
    CHECK(one.bottleneck == "gpu0.port.out");
    // Two bridges of two GPUs, 1 GB/s between them: 2 x 2 MB = 4 ms each way.
    const Exchange two = exchange(cluster, {.host_bridges = 2, .bridge_rate = 1_GBps}, model, matrix);
    CHECK(same(two.seconds, 4e-3));
    CHECK(two.bottleneck == "node0.bridge0.to1");
  }
}

TEST_CASE("an NVL72 rack is a node of 72: symmetric traffic takes both models equally long") {
  ClusterSpec cluster = test::small_cluster(2);
  cluster.node.gpus = cluster.node.nics = 72;
  cluster.node.intra_rate = 900_GBps;
  const PairRows matrix = matrix_of(cluster, 1);
  // 72 MB out of each GPU's own NIC at 10 GB/s.
  CHECK(same(exchange(cluster, {}, NetworkModel::kTwoTier, matrix).seconds, 7.2e-3));
  CHECK(same(exchange(cluster, {}, NetworkModel::kMaxMin, matrix).seconds, 7.2e-3));
}

// Over these fabrics the flows take up to 1.6 % longer than the busiest link, where everybody talks to everybody.
TEST_CASE("random matrices over every fabric: two_tier is a lower bound of max_min, within 5 %") {
  ClusterSpec pcie = test::small_cluster(4);
  pcie.node.intra = IntraLink::kPcie;
  pcie.node.intra_rate = 6_GBps;
  struct Row {
    const char* name;
    ClusterSpec cluster;
    FabricOptions fabric;
  };
  const ClusterSpec plain = test::small_cluster(6);
  for (const Row& r :
       {Row{"one switch", plain, {}},
        Row{"leaves 2:1", plain, {.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 2, .oversubscription = 2.0}},
        Row{"leaves 6:1", plain, {.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 3, .oversubscription = 6.0}},
        Row{"rails 4:1", plain, {.kind = FabricKind::kRailOptimised, .oversubscription = 4.0}}, Row{"PCIe", pcie, {}},
        Row{"two bridges", pcie, {.host_bridges = 2, .bridge_rate = 8_GBps}},
        Row{"narrow NIC slots", plain, {.nic_attach_rate = 4_GBps}}}) {
    CAPTURE(r.name);
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const PairRows matrix = matrix_of(r.cluster, 10, seed);
      const double closed = exchange(r.cluster, r.fabric, NetworkModel::kTwoTier, matrix).seconds;
      const double flows = exchange(r.cluster, r.fabric, NetworkModel::kMaxMin, matrix).seconds;
      CHECK(closed <= flows * (1 + 1e-9));
      CHECK(flows <= closed * 1.05);
    }
  }
}

TEST_CASE("make_network takes the fast form where ports and NICs are all there is") {
  ClusterSpec cluster = test::small_cluster(2);
  const auto is_fabric = [&](const NetworkOptions& options) {
    return dynamic_cast<FabricNetwork*>(make_network(cluster, no_latency(cluster), options).get()) != nullptr;
  };
  CHECK(!is_fabric({}));
  CHECK(is_fabric({.model = NetworkModel::kMaxMin}));
  CHECK(is_fabric({.fabric = {.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 1, .oversubscription = 2.0}}));
  CHECK(is_fabric({.fabric = {.nic_attach_rate = 5_GBps}}));
  cluster.node.intra = IntraLink::kPcie;
  CHECK(is_fabric({}));
}

TEST_CASE("cables that are not there: the next shortest route, or an error that names who is cut off") {
  const ClusterSpec cluster = test::small_cluster(2);
  FabricOptions fabric{.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 1};
  fabric.missing_links = {"leaf0.up"};
  test::check_contains(
      test::error_of<InputError>([&] { FabricNetwork(cluster, no_latency(cluster), {.fabric = fabric}); }).what(),
      {"disconnected", "node0.nic0", "node1.nic0"});
  fabric.missing_links = {"leaf0.upp"};
  const InputError unknown =
      test::error_of<InputError>([&] { FabricNetwork(cluster, no_latency(cluster), {.fabric = fabric}); });
  CHECK(unknown.place.key == "missing_links");
  test::check_contains(unknown.what(), {"leaf0.upp", "nearest first: leaf0.up"});
}

TEST_CASE("a transport that was not measured on a link is refused, AG + RS and p2p take what is there") {
  const ClusterSpec cluster = test::small_cluster(2);
  const NetworkProfile profile = no_latency(cluster);
  CHECK_NOTHROW(make_network(cluster, profile, {.transport = Transport::kAllGatherReduceScatter}));
  const InputError refused =
      test::error_of<InputError>([&] { make_network(cluster, profile, {.transport = Transport::kDeepEpNormal}); });
  CHECK(refused.place.key == "transport");
  test::check_contains(refused.what(), {"deepep_normal", "inside the node", "deepep_dispatch"});
}
