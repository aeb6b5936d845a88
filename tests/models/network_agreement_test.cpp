// two_tier, the closed form, against max_min, the flows: on the same source x destination matrices, at data-sheet rates
// and without latency.
//
// What theory says. Every link needs at least its bytes / rate, and two_tier takes the longest of some of these times,
// so two_tier <= max_min on every matrix and topology. They are equal when the busiest resource has flows to carry at
// full rate until the end: on symmetric matrices, where all flows of a tier end together, and wherever its flows meet
// no other contended link. They may differ when
//   - flows of the busiest link wait for other full links, and the link idles meanwhile ("waiting elsewhere" below);
//   - the topology has resources that two_tier does not know: an oversubscribed tier, a PCIe port that carries both
//     tiers, a GPU's path to its NIC. Then max_min may be larger by any factor.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "models/catalogue/catalogue.h"
#include "models/network/fabric.h"
#include "models/network/max_min.h"
#include "models/network/two_tier.h"
#include "sim/core/rng.h"
#include "tests/models/clusters.h"
#include "tests/models/pair_rows.h"
#include "tests/models/profiles.h"

using namespace epsim;
using namespace epsim::literals;

namespace {

const Bytes kRowBytes(14336);  // 7168 x bf16

// Relative; doctest's Approx adds an absolute part, which is too much for milliseconds.
bool near_equal(double a, double b) { return std::abs(a / b - 1.0) <= 1e-9; }

double closed_form(const ClusterSpec& cluster, const PairRows& matrix, Direction direction = Direction::kDispatch) {
  TwoTierNetwork network(cluster,
                         {test::plain_link(0, 1.0, cluster.node.gpus), test::plain_link(0, 1.0, cluster.gpus())});
  std::vector<double> carried(network.links().size());
  return network.all_to_all(traffic_of(matrix, shape_of(cluster)), kRowBytes, direction, carried).price.time.count();
}

double by_flows(const Topology& topology, const PairRows& matrix, bool combine = false) {
  return max_min(topology, flows_of(matrix, kRowBytes, combine)).time.count();
}

PairRows empty_matrix(const ClusterSpec& cluster) {
  const auto gpus = static_cast<std::size_t>(cluster.gpus());
  return {cluster.gpus(), std::vector<double>(gpus * gpus)};
}

// Every pair exchanges a drawn number of rows; receivers differ by `skew` (the deviation of the log), as GPUs with hot
// experts do, and senders by up to 3 to 1. With `fan_out`, each GPU sends to that many others only.
PairRows random_matrix(const ClusterSpec& cluster, double skew, std::uint64_t seed, int fan_out = 0) {
  RandomStream random(Seed{seed}, "matrix");
  PairRows matrix = empty_matrix(cluster);
  std::vector<double> tokens, heat;
  for (int g = 0; g < matrix.gpus; ++g) {
    tokens.push_back(50.0 + 100.0 * random.uniform());
    heat.push_back(random.lognormal(0.0, skew));
  }
  const double chance = fan_out == 0 ? 1.0 : fan_out / (matrix.gpus - 1.0);
  for (int from = 0; from < matrix.gpus; ++from) {
    for (int to = 0; to < matrix.gpus; ++to) {
      const double rows = tokens[static_cast<std::size_t>(from)] * heat[static_cast<std::size_t>(to)];
      const bool sends = from != to && random.uniform() < chance;
      matrix.at(from, to) = sends ? rows * (0.5 + random.uniform()) : 0.0;
    }
  }
  return matrix;
}

ClusterSpec cluster_of(const char* node, int nodes) { return {.node = find_node(node).spec, .nodes = nodes}; }

}  // namespace

TEST_CASE("symmetric all-to-all: the flows take exactly what the closed form says") {
  struct Row {
    const char* name;
    ClusterSpec cluster;
    double ms;  // for 100 rows of 14336 B a pair
  };
  // A NIC of p4de carries 2 GPUs x 56 remote GPUs x 1.4336 MB = 160.56 MB at 12.5 GB/s; of p5, 56 x 1.4336 = 80.28 MB
  // at 50 GB/s. One node of p4de: 7 x 1.4336 MB = 10.035 MB at 300 GB/s.
  for (const Row& r : {Row{"p4de x 8", cluster_of("p4de.24xlarge", 8), 12.845056},
                       Row{"p5 x 8", cluster_of("p5.48xlarge", 8), 1.6056320},
                       Row{"p4de x 1", cluster_of("p4de.24xlarge", 1), 0.03345066667}}) {
    CAPTURE(r.name);
    PairRows matrix = empty_matrix(r.cluster);
    for (int from = 0; from < matrix.gpus; ++from) {
      for (int to = 0; to < matrix.gpus; ++to) {
        matrix.at(from, to) = from == to ? 0.0 : 100.0;
      }
    }
    const double price = closed_form(r.cluster, matrix);
    CHECK(near_equal(price * 1e3, r.ms));
    // Rails and leaves that are not oversubscribed carry it as one switch does.
    for (const FabricOptions& options : {FabricOptions{}, FabricOptions{.kind = FabricKind::kRailOptimised},
                                         FabricOptions{.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 2}}) {
      const Topology topology(plan_topology(r.cluster, options));
      CHECK(near_equal(by_flows(topology, matrix), price));
      CHECK(near_equal(by_flows(topology, matrix, true), price));
    }
  }
}

// Of these 240 dense matrices the flows take at most 1.8 % longer than the closed form says, 0.03 % on average; of the
// sparse ones, where a sender has few other flows to fill a gap with, 8.4 % and 0.3 %.
TEST_CASE("random matrices: the closed form is a lower bound, within 5 % where everybody talks to everybody") {
  for (const ClusterSpec& cluster : {cluster_of("p4de.24xlarge", 2), cluster_of("p4de.24xlarge", 4),
                                     cluster_of("p5.48xlarge", 2), test::small_cluster(6)}) {
    const Topology topology(plan_topology(cluster));
    for (const double skew : {0.0, 0.3, 1.0}) {
      for (std::uint64_t seed = 0; seed < 10; ++seed) {
        CAPTURE(cluster.node.name);
        CAPTURE(skew);
        CAPTURE(seed);
        const PairRows dense = random_matrix(cluster, skew, seed), sparse = random_matrix(cluster, skew, seed, 3);
        for (const bool combine : {false, true}) {
          const Direction direction = combine ? Direction::kCombine : Direction::kDispatch;
          const double price = closed_form(cluster, dense, direction), flows = by_flows(topology, dense, combine);
          CHECK(price <= flows * (1 + 1e-9));
          CHECK(flows <= price * 1.05);
          CHECK(closed_form(cluster, sparse, direction) <= by_flows(topology, sparse, combine) * (1 + 1e-9));
        }
      }
    }
  }
}

TEST_CASE("one hot receiver holds up nobody else's price: both take its NIC's time") {
  // All send 100 rows to everybody, and 900 to GPU 5 (node 1, NIC 0).
  const ClusterSpec cluster = test::small_cluster(8);
  PairRows matrix = empty_matrix(cluster);
  for (int from = 0; from < matrix.gpus; ++from) {
    for (int to = 0; to < matrix.gpus; ++to) {
      matrix.at(from, to) = from == to ? 0.0 : to == 5 ? 900.0 : 100.0;
    }
  }
  // Node 1's NIC 0 receives for GPUs 4 and 5 from 28 GPUs: 28 x (100 + 900) rows x 14336 B at 10 GB/s.
  const double expected = 28 * 1000 * kRowBytes.count() / 10e9;
  CHECK(near_equal(closed_form(cluster, matrix), expected));
  CHECK(near_equal(by_flows(Topology(plan_topology(cluster)), matrix), expected));
}

TEST_CASE("waiting elsewhere: flows can take longer than any link is busy") {
  // NICs of 10 GB/s, one a GPU. B sends 30 GB to X and to Y: 60 GB, the busiest link, 6 s. Three others send 9 GB to X
  // and three 9 GB to Y: 27 + 30 = 57 GB in, 5.7 s. But X's and Y's four flows share alike, so B runs at 2.5 + 2.5 GB/s
  // until the others end at 9 / 2.5 = 3.6 s. Then 21 GB are left of each of B's flows, at 5 GB/s: 3.6 + 4.2 = 7.8 s.
  ClusterSpec cluster = test::small_cluster(9);
  cluster.node.gpus = cluster.node.nics = 1;
  PairRows matrix = empty_matrix(cluster);
  const int b = 0, x = 1, y = 2;
  const double gb = 1e9 / kRowBytes.count();
  matrix.at(b, x) = matrix.at(b, y) = 30 * gb;
  for (const int other : {3, 4, 5}) {
    matrix.at(other, x) = 9 * gb;
    matrix.at(other + 3, y) = 9 * gb;
  }
  CHECK(near_equal(closed_form(cluster, matrix), 6.0));
  CHECK(near_equal(by_flows(Topology(plan_topology(cluster)), matrix), 7.8));
}

TEST_CASE("what two_tier does not see only makes the flows slower") {
  ClusterSpec cluster = test::small_cluster(4);
  const PairRows matrix = random_matrix(cluster, 0.3, 7);
  const double price = closed_form(cluster, matrix);
  const double plain = by_flows(Topology(plan_topology(cluster)), matrix);
  const double narrow = by_flows(
      Topology(plan_topology(cluster, {.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 1, .oversubscription = 4.0})),
      matrix);
  CHECK(price <= plain * (1 + 1e-9));
  CHECK(narrow > 3.0 * plain);  // nearly all traffic leaves its node, through a quarter of the NICs' rate
  // PCIe: a port of 10 GB/s carries a GPU's traffic inside and between nodes; two_tier prices both side by side.
  cluster.node.intra = IntraLink::kPcie;
  cluster.node.intra_rate = 10_GBps;
  const double pcie_price = closed_form(cluster, matrix), pcie = by_flows(Topology(plan_topology(cluster)), matrix);
  CHECK(pcie_price <= pcie * (1 + 1e-9));
  CHECK(near_equal(pcie_price, price));  // the NIC of two GPUs is the busiest resource for it
}

TEST_CASE("the matrix has the sums that the traffic model counts") {
  const ClusterShape shape{.gpus = 8, .gpus_per_node = 4};
  constexpr int kExperts = 12, kSlots = 24;
  for (const int tp : {1, 2, 4}) {
    const Parallelism parallelism{.gpus = 8, .attention_tp = tp};
    for (const bool by_rank : {false, true}) {
      for (const int gpus_per_source : {0, 2, 4}) {
        RandomStream random(Seed{11}, "sums", static_cast<std::uint64_t>(tp), by_rank ? 1 : 0);
        std::vector<int> slots(kSlots);
        for (int i = 0; i < kSlots; ++i) {
          slots[static_cast<std::size_t>(i)] = i % kExperts;  // every expert twice
        }
        std::vector<SourceShares> shares;
        if (gpus_per_source > 0) {  // a source's two copies of an expert share its tokens p : 1 - p
          SourceShares s{.gpus_per_source = gpus_per_source, .share = {}};
          for (int source = 0; source < 8 / gpus_per_source; ++source) {
            std::vector<float> first(kExperts);
            std::generate(first.begin(), first.end(), [&] { return static_cast<float>(random.uniform()); });
            s.share.insert(s.share.end(), first.begin(), first.end());
            std::transform(first.begin(), first.end(), std::back_inserter(s.share), [](float p) { return 1.0F - p; });
          }
          shares.push_back(s);
        }
        PlacementPlan plan{.policy = "test", .experts = kExperts, .gpus = 8, .layers = {uniform_layer(slots, 8)}};
        const Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(1000), shares);
        StepLoads loads;
        loads.resize(1, by_rank ? parallelism.dp_ranks() : 1, kExperts);
        std::generate(loads.per_token.begin(), loads.per_token.end(),
                      [&] { return static_cast<float>(random.uniform()); });
        std::vector<std::int64_t> tokens;
        for (int r = 0; r < parallelism.dp_ranks(); ++r) {
          tokens.push_back(static_cast<std::int64_t>(random.below(500)));
        }
        for (const Dedup dedup : {Dedup::kNone, Dedup::kGpu, Dedup::kNode}) {
          TrafficMatrix counted;
          TrafficModel(placement, parallelism, shape, dedup).layer(0, loads, tokens, counted);
          const TrafficMatrix sums =
              traffic_of(expected_rows(placement, parallelism, shape, dedup, 0, loads, tokens), shape);
          const double near = 1e-9;
          for (std::size_t g = 0; g < 8; ++g) {
            CHECK(sums.intra_out[g] == doctest::Approx(counted.intra_out[g]).epsilon(near));
            CHECK(sums.intra_in[g] == doctest::Approx(counted.intra_in[g]).epsilon(near));
            CHECK(sums.inter_out[g] == doctest::Approx(counted.inter_out[g]).epsilon(near));
            CHECK(sums.inter_in[g] == doctest::Approx(counted.inter_in[g]).epsilon(near));
          }
        }
      }
    }
  }
}
