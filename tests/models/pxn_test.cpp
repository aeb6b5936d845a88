// Messages that NCCL relays: by hand, as sums against pair by pair, on rails, and shared fairly against the flows.
#include "models/network/pxn.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "models/catalogue/catalogue.h"
#include "models/network/fabric_network.h"
#include "models/network/make_network.h"
#include "models/network/two_tier.h"
#include "sim/core/error.h"
#include "sim/core/rng.h"
#include "tests/models/clusters.h"
#include "tests/models/pair_rows.h"
#include "tests/models/profiles.h"
#include "tests/support/errors.h"

namespace epsim::pxn_tests {
namespace {

const Bytes kRow(1e6);
constexpr Direction kBoth[] = {Direction::kDispatch, Direction::kCombine};

bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

NetworkProfile no_latency(const ClusterSpec& cluster) {
  return {test::plain_link(0, 1.0, cluster.node.gpus), test::plain_link(0, 1.0, cluster.gpus())};
}

// tokens[a] x reach[b] rows from GPU a to GPU b; of `mixes` equal parts of the GPUs, each with a reach of its own.
struct Products {
  std::vector<double> tokens;
  std::vector<std::vector<double>> reach;
};

TrafficMatrix traffic_of(const ClusterSpec& cluster, const Products& products) {
  const auto lanes = std::make_shared<const SourceLanes>(common_lanes(shape_of(cluster)));
  const int width = cluster.gpus() / static_cast<int>(products.reach.size());
  TrafficMatrix out;
  out.clear(shape_of(cluster), products.tokens);
  for (std::size_t i = 0; i < products.reach.size(); ++i) {
    const int first = static_cast<int>(i) * width;
    TrafficMatrix::Mix& mix = out.new_mix(lanes, first, first + width);
    mix.reach = products.reach[i];
    out.count(mix);
  }
  return out;
}

// Hot GPUs by `skew` (the deviation of the log); tokens on the first `senders` nodes, up to 8 : 1 among nodes or among
// GPUs, few on the others.
Products drawn(const ClusterSpec& cluster, int senders, double skew, std::size_t mixes, std::uint64_t seed,
               bool by_node = false) {
  RandomStream random(Seed{seed}, "pxn");
  Products out;
  for (int g = 0; g < cluster.gpus(); ++g) {
    const bool as_before = by_node && g % cluster.node.gpus > 0;
    const double tokens = as_before ? out.tokens.back() : 64 * (1 + 7 * random.uniform());
    out.tokens.push_back(g / cluster.node.gpus < senders ? tokens : 4);
  }
  for (std::size_t i = 0; i < mixes; ++i) {
    std::vector<double>& reach = out.reach.emplace_back();
    for (int g = 0; g < cluster.gpus(); ++g) {
      reach.push_back(0.1 * random.lognormal(0.0, skew));
    }
  }
  return out;
}

ExchangePrice priced(const Network& network, const TrafficMatrix& traffic, Direction direction) {
  std::vector<double> carried(network.links().size());
  return network.all_to_all(traffic, kRow, direction, carried);
}

double seconds(const ClusterSpec& cluster, const TrafficMatrix& traffic, Direction direction,
               const NetworkOptions& options) {
  return priced(TwoTierNetwork(cluster, no_latency(cluster), options), traffic, direction).price.time.count();
}

double by_flows(const ClusterSpec& cluster, const TrafficMatrix& traffic, Direction direction,
                const FabricOptions& fabric = {}, bool pxn = true) {
  const FabricNetwork network(cluster, no_latency(cluster),
                              {.model = NetworkModel::kMaxMin, .fabric = fabric, .pxn = pxn});
  return priced(network, traffic, direction).price.time.count();
}

// A matrix that knows its rows pair by pair alone.
TrafficMatrix by_pairs(const ClusterSpec& cluster, const TrafficMatrix& traffic) {
  return traffic_of(PairRows{cluster.gpus(), traffic.pairs()}, shape_of(cluster));
}

}  // namespace

TEST_CASE("rows leave by the NIC of the receiver's index, those of a combine too") {
  // Two nodes of four GPUs, two a NIC: GPUs 0 and 2 relay in the first, 4 and 6 in the second.
  const ClusterSpec cluster = test::small_cluster(2);
  const Pxn pxn(shape_of(cluster), 2);
  CHECK(pxn.relay(1, 4) == 0);
  CHECK(pxn.relay(1, 7) == 2);
  CHECK(pxn.relay(7, 1) == 4);
  CHECK(pxn.relay(1, 3) == 1);  // inside a node nothing is relayed
  PairRows rows{8, std::vector<double>(64)};
  rows.at(1, 4) = 10;
  rows.at(1, 7) = 20;
  rows.at(1, 3) = 5;
  const TrafficMatrix traffic = traffic_of(rows, shape_of(cluster));
  PortRows out;
  pxn.ports(traffic, Direction::kDispatch, out);
  CHECK(out.intra_out == std::vector<double>{0, 35, 0, 0, 0, 0, 0, 0});
  CHECK(out.intra_in == std::vector<double>{10, 0, 20, 5, 0, 0, 0, 0});
  CHECK(out.inter_out == std::vector<double>{10, 0, 20, 0, 0, 0, 0, 0});
  CHECK(out.inter_in == std::vector<double>{0, 0, 0, 0, 10, 0, 0, 20});
  // Back to GPU 1, all by the first NIC: GPU 4 has it, GPU 7 needs a hop.
  pxn.ports(traffic, Direction::kCombine, out);
  CHECK(out.intra_out == std::vector<double>{0, 0, 0, 5, 0, 0, 0, 20});
  CHECK(out.intra_in == std::vector<double>{0, 5, 0, 0, 20, 0, 0, 0});
  CHECK(out.inter_out == std::vector<double>{0, 0, 0, 0, 30, 0, 0, 0});
  CHECK(out.inter_in == std::vector<double>{0, 30, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("a lone sender has all NICs of its node on the way out, and one on the way back") {
  // GPU 0 of 3 x 4 sends 3 rows of 1 MB to each GPU of the other nodes: 24 MB by one NIC of 10 GB/s take 2.4 ms, by both
  // 1.2 ms. What comes back to it comes by one NIC.
  const ClusterSpec cluster = test::small_cluster(3);
  Products products{std::vector<double>(12), {std::vector<double>(12, 3.0)}};
  products.tokens[0] = 1;
  const TrafficMatrix traffic = traffic_of(cluster, products);
  for (const NetworkModel model : {NetworkModel::kTwoTier, NetworkModel::kFairShare}) {
    CHECK(same(seconds(cluster, traffic, Direction::kDispatch, {.model = model}), 2.4e-3));
    CHECK(same(seconds(cluster, traffic, Direction::kDispatch, {.model = model, .pxn = true}), 1.2e-3));
    CHECK(same(seconds(cluster, traffic, Direction::kCombine, {.model = model, .pxn = true}), 2.4e-3));
  }
  CHECK(same(by_flows(cluster, traffic, Direction::kDispatch), 1.2e-3));
  CHECK(same(by_flows(cluster, traffic, Direction::kCombine), 2.4e-3));
  // GPU 0 relays what goes to indices 0 and 1 of the two nodes itself; 4 x 3 rows go to GPU 2, beside 3 x 3 inside.
  const TwoTierNetwork network(cluster, no_latency(cluster), {.pxn = true});
  std::vector<double> carried(network.links().size());
  network.all_to_all(traffic, kRow, Direction::kDispatch, carried);
  CHECK(same(carried[0], 21e6));          // gpu0.port.out
  CHECK(same(carried[2 * 2 + 1], 15e6));  // gpu2.port.in
}

TEST_CASE("an even all-to-all keeps to its rail, so that an oversubscribed spine holds nobody up") {
  // 4 nodes of 4 GPUs, rails of two GPUs a node. Every pair 1 row of 1 MB: 2 x 12 MB out of a NIC of 10 GB/s take 2.4 ms.
  // By the sender's own NIC half of these cross to the other rail: 4 nodes x 12 MB up at 4 x 10 GB/s / 4 take 4.8 ms.
  const ClusterSpec cluster = test::small_cluster(4);
  const FabricOptions rails{.kind = FabricKind::kRailOptimised, .oversubscription = 4.0};
  const TrafficMatrix traffic =
      traffic_of(cluster, Products{std::vector<double>(16, 1.0), {std::vector<double>(16, 1.0)}});
  for (const Direction direction : kBoth) {
    CHECK(same(by_flows(cluster, traffic, direction, rails, false), 4.8e-3));
    CHECK(same(by_flows(cluster, traffic, direction, rails), 2.4e-3));
    const FabricNetwork busiest(cluster, no_latency(cluster), {.fabric = rails, .pxn = true});
    CHECK(same(priced(busiest, traffic, direction).price.time.count(), 2.4e-3));
    std::vector<double> carried(busiest.links().size());
    busiest.all_to_all(traffic, kRow, direction, carried);
    for (std::size_t i = 0; i < carried.size(); ++i) {
      CHECK((carried[i] == 0 || !busiest.links()[i].name.starts_with("rail")));
    }
  }
}

TEST_CASE("sums over sources are those of all pairs, and of routes through the graph") {
  for (const ClusterSpec& cluster : {test::small_cluster(3), ClusterSpec{find_node("DGX-H200").spec, 3}}) {
    for (const std::size_t mixes : {1, 3}) {
      CAPTURE(cluster.node.name);
      CAPTURE(mixes);
      const TrafficMatrix traffic = traffic_of(cluster, drawn(cluster, 2, 0.7, mixes, 5));
      const TrafficMatrix pairs = by_pairs(cluster, traffic);
      const NetworkProfile profile{test::plain_link(10e-6, 0.5, cluster.node.gpus),
                                   test::plain_link(100e-6, 0.8, cluster.gpus())};
      const TwoTierNetwork closed(cluster, profile, {.pxn = true});
      const FabricNetwork graph(cluster, profile, {.pxn = true});
      CHECK(same(closed.over_all(CollectiveKind::kAllGather, Bytes(1e8)).time.count(),
                 graph.over_all(CollectiveKind::kAllGather, Bytes(1e8)).time.count()));
      for (const Direction direction : kBoth) {
        std::vector<double> a(closed.links().size()), b(closed.links().size()), c(graph.links().size());
        const ExchangePrice fast = closed.all_to_all(traffic, kRow, direction, a);
        CHECK(same(fast.price.time.count(), closed.all_to_all(pairs, kRow, direction, b).price.time.count()));
        const ExchangePrice slow = graph.all_to_all(traffic, kRow, direction, c);
        CHECK(same(fast.price.time.count(), slow.price.time.count()));
        CHECK(closed.links()[static_cast<std::size_t>(fast.bottleneck)].name ==
              graph.links()[static_cast<std::size_t>(slow.bottleneck)].name);
        for (std::size_t i = 0; i < a.size(); ++i) {
          const auto at = std::find_if(graph.links().begin(), graph.links().end(),
                                       [&](const Network::Link& link) { return link.name == closed.links()[i].name; });
          REQUIRE(at != graph.links().end());
          CHECK(same(a[i], b[i]));
          CHECK(same(a[i], c[static_cast<std::size_t>(at - graph.links().begin())]));
        }
        Network::PortPrices of_closed, of_graph;
        closed.port_prices(traffic, kRow, direction, of_closed);
        graph.port_prices(traffic, kRow, direction, of_graph);
        for (std::size_t g = 0; g < of_closed.in.size(); ++g) {
          CHECK(same(of_closed.in[g].time.count(), of_graph.in[g].time.count()));
          CHECK(same(of_closed.out[g].time.count(), of_graph.out[g].time.count()));
        }
      }
    }
  }
}

TEST_CASE("rows that are sent once a node travel by the sender's index already") {
  // One token of GPU 0 for every node, fanned out from the GPU of its index, which is its NIC's first: nothing moves.
  const ClusterSpec cluster = test::small_cluster(3);
  std::vector<double> tokens(12);
  tokens[0] = 4;
  const auto lanes = std::make_shared<const SourceLanes>(common_lanes(shape_of(cluster)));
  TrafficMatrix traffic;
  traffic.clear(shape_of(cluster), tokens);
  TrafficMatrix::Mix& mix = traffic.new_mix(lanes, 0, 12);
  mix.reach.assign(12, 0.5);
  mix.rows.front().hit.assign(3, 1.0);
  traffic.count(mix);
  PortRows out;
  Pxn(shape_of(cluster), 2).ports(traffic, Direction::kDispatch, out);
  CHECK(out.inter_out == traffic.inter_out);
  CHECK(out.intra_in == traffic.intra_in);
}

TEST_CASE("on a rail, receivers wait for senders as they do on one switch of a NIC a node") {
  // fair_share_test.cpp: 30 rows to a hot receiver and 10 to four others from two senders take 90 rows' time. Here GPUs
  // 0 and 1 of the first two nodes have the tokens, half each, and one rail's GPUs get the rows.
  ClusterSpec cluster = test::small_cluster(7);
  cluster.node.gpus = cluster.node.nics = 2;
  Products products{std::vector<double>(14), {std::vector<double>(14)}};
  for (const int g : {0, 1, 2, 3}) {
    products.tokens[static_cast<std::size_t>(g)] = 0.5;
  }
  for (int node = 2; node < 7; ++node) {
    products.reach.front()[static_cast<std::size_t>(2 * node)] = node == 2 ? 30 : 10;
  }
  const TrafficMatrix traffic = traffic_of(cluster, products);
  const double row_s = kRow.count() / 10e9;
  const NetworkOptions fair{.model = NetworkModel::kFairShare, .pxn = true};
  CHECK(same(seconds(cluster, traffic, Direction::kDispatch, {.pxn = true}), 70 * row_s));
  CHECK(same(seconds(cluster, traffic, Direction::kDispatch, fair), 90 * row_s));
  CHECK(same(by_flows(cluster, traffic, Direction::kDispatch), 90 * row_s));
  const TwoTierNetwork network(cluster, no_latency(cluster), fair);
  const int waits = priced(network, traffic, Direction::kDispatch).bottleneck;
  CHECK(network.links()[static_cast<std::size_t>(waits)].name == "node2.nic0.in");
  // The same rows pair by pair, as those of slowed links come.
  CHECK(same(seconds(cluster, by_pairs(cluster, traffic), Direction::kDispatch, fair), 90 * row_s));
}

TEST_CASE(
    "fair_share with relays: as max_min over the same relays, best where the GPUs of a node have as many tokens") {
  for (const ClusterSpec& cluster :
       {ClusterSpec{find_node("p4de.24xlarge").spec, 8}, ClusterSpec{find_node("p5.48xlarge").spec, 4}}) {
    for (const int senders : {1, 2, 3, cluster.nodes}) {
      for (const bool by_node : {true, false}) {
        for (std::uint64_t seed = 0; seed < 4; ++seed) {
          CAPTURE(cluster.node.name);
          CAPTURE(senders);
          CAPTURE(by_node);
          CAPTURE(seed);
          const double skew = seed % 2 == 0 ? 0.3 : 1.0;
          const TrafficMatrix traffic = traffic_of(cluster, drawn(cluster, senders, skew, 1, seed, by_node));
          for (const Direction direction : kBoth) {
            const double flows = by_flows(cluster, traffic, direction);
            const double fair = seconds(cluster, traffic, direction, {.model = NetworkModel::kFairShare, .pxn = true});
            CHECK(seconds(cluster, traffic, direction, {.pxn = true}) <= flows * (1 + 1e-9));
            CHECK(std::abs(fair / flows - 1) < (by_node && cluster.nodes == 8 ? 0.03 : 0.09));
          }
        }
      }
    }
  }
}

TEST_CASE("a slow NIC slows what it relays") {
  // As the lone sender above: 12 MB by each NIC of the first node. At half the rate of GPU 2's NIC, 2.4 ms; of GPU 0's
  // own, as much; of the way back, which comes in by the first, 2 x 2.4 ms.
  const ClusterSpec cluster = test::small_cluster(3);
  Products products{std::vector<double>(12), {std::vector<double>(12, 3.0)}};
  products.tokens[0] = 1;
  const TrafficMatrix traffic = traffic_of(cluster, products);
  const TwoTierNetwork network(cluster, no_latency(cluster), {.pxn = true});
  for (const std::size_t slow : {std::size_t{0}, std::size_t{2}}) {
    std::vector<double> nics(12, 1.0);
    nics[slow] = nics[slow + 1] = 0.5;  // the two GPUs that have it
    const auto time = [&](Direction direction) {
      return priced(network, network.slowed(traffic, direction, {}, nics), direction).price.time.count();
    };
    CHECK(same(time(Direction::kDispatch), 2.4e-3));
    CHECK(same(time(Direction::kCombine), slow == 0 ? 4.8e-3 : 2.4e-3));
  }
}

TEST_CASE("10,000 GPUs: sums price an exchange, flows and routes say that they are too many") {
  // DGX H100 x 1250: every GPU sends a row of 1 MB to each of 9992 others by a NIC of 50 GB/s.
  const ClusterSpec cluster{find_node("DGX-H100").spec, 1250};
  const TrafficMatrix traffic =
      traffic_of(cluster, Products{std::vector<double>(10000, 1.0), {std::vector<double>(10000, 1.0)}});
  for (const Direction direction : kBoth) {
    CHECK(same(seconds(cluster, traffic, direction, {.pxn = true}), 9992e6 / 50e9));
  }
  const auto refusal = [&](const NetworkOptions& options) {
    const auto error = test::error_of<InputError>([&] { make_network(cluster, no_latency(cluster), options); });
    return error.place.key + ": " + error.what();
  };
  const std::string flows = refusal({.model = NetworkModel::kMaxMin}),
                    routes = refusal({.fabric = {.kind = FabricKind::kRailOptimised}});
  // 0.4 s x (10,000 / 256)^3
  test::check_contains(
      flows, {"model: ", "max_min", "at most 512", "10000", "about 23842 s", "two_tier, or fair_share where"});
  const std::string fabric = refusal({.model = NetworkModel::kMaxMin, .fabric = {.kind = FabricKind::kRailOptimised}});
  CHECK(fabric.find("fair_share") == std::string::npos);  // it prices one switch alone
  test::check_contains(routes, {"kind: ", "at most 4096", "10000"});
}

TEST_CASE("nothing is relayed inside a node, or without NVLink") {
  ClusterSpec pcie = test::small_cluster(3);
  pcie.node.intra = IntraLink::kPcie;
  for (const ClusterSpec& cluster : {test::small_cluster(1), pcie}) {
    const TrafficMatrix traffic = traffic_of(cluster, drawn(cluster, 1, 0.7, 1, 3));
    for (const Direction direction : kBoth) {
      CHECK(seconds(cluster, traffic, direction, {.pxn = true}) == seconds(cluster, traffic, direction, {}));
    }
  }
}

}  // namespace epsim::pxn_tests
