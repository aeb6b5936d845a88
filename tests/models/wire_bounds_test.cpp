// How long the wire alone takes on CRAFT's testbed: first-principles figures that every run has to respect
// (acceptance.md section 7). p4de: 50 GB/s of EFA a node; a chunk of 4096 tokens a node; rows of 7168 bf16; routing
// uniform over all experts, one copy each, in order.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "models/catalogue/catalogue.h"
#include "models/network/fabric.h"
#include "models/network/two_tier.h"
#include "sim/core/rng.h"
#include "tests/models/pair_rows.h"
#include "tests/models/profiles.h"
#include "tests/support/token_traffic.h"

using namespace epsim;

namespace {

constexpr int kTokens = 4096, kWireTopK = 8;
const Bytes kWireRow(7168 * 2);

// dispatch and combine of one layer at 50 GB/s; all MoE layers for one chunk; chunks a second of all nodes, with the
// NICs busy all or 80 % of the time.
struct Bounds {
  double ms, chunk_s, requests_per_s, requests_per_s_at_80;
};

struct WireSetup {
  const char* name;
  int nodes, experts, moe_layers;
  // One row a remote GPU and one a remote node. The table draws the 8 experts of a token with replacement: 56 x (1 -
  // (63/64)^8) = 6.63 GPUs, 7 x (1 - (7/8)^8) = 4.59 nodes for D8; 2 x 4096 x 6.63 x 14336 B / 50 GB/s = 15.6 ms.
  Bounds per_gpu, per_node;
};
constexpr WireSetup kSetups[] = {{"DeepSeek-R1, 8 nodes", 8, 256, 58, {15.6, 0.90, 8.9, 7.1}, {10.8, 0.63, 12.8, 10.2}},
                                 {"Kimi-K2, 6 nodes", 6, 384, 60, {14.6, 0.87, 6.9, 5.5}, {9.0, 0.54, 11.1, 8.9}},
                                 {"Kimi-K2, 8 nodes", 8, 384, 60, {15.6, 0.93, 8.6, 6.9}, {10.8, 0.65, 12.4, 9.9}},
                                 {"Kimi-K2, 12 nodes", 12, 384, 60, {16.6, 1.00, 12.0, 9.6}, {13.0, 0.78, 15.4, 12.4}}};

struct Run {
  ClusterSpec cluster;
  ClusterShape shape;
  Parallelism parallelism;
  Placement placement;
};

Run run_of(const WireSetup& setup) {
  const ClusterSpec cluster{.node = find_node("p4de.24xlarge").spec, .nodes = setup.nodes};
  std::vector<int> slots(static_cast<std::size_t>(setup.experts));
  std::iota(slots.begin(), slots.end(), 0);
  const PlacementPlan plan{.policy = "test",
                           .experts = setup.experts,
                           .gpus = cluster.gpus(),
                           .layers = {uniform_layer(slots, cluster.gpus())}};
  return {cluster,
          shape_of(cluster),
          {.gpus = cluster.gpus(), .attention_tp = 8},
          Placement::build(plan, shape_of(cluster), Bytes(1), Bytes(1e6))};
}

// Relative; doctest's Approx adds an absolute part.
double relative_error(double value, double reference) { return std::abs(value / reference - 1.0); }

StepLoads uniform(const WireSetup& setup) {
  StepLoads loads;
  loads.resize(1, 1, setup.experts);
  std::fill(loads.per_token.begin(), loads.per_token.end(),
            static_cast<float>(kWireTopK) / static_cast<float>(setup.experts));
  return loads;
}

double wire_ms(const Run& run, const TrafficMatrix& traffic) {
  TwoTierNetwork network(run.cluster, {test::plain_link(0, 1.0, 8), test::plain_link(0, 1.0, run.cluster.gpus())});
  std::vector<double> carried(network.links().size());
  return to_ms(network.all_to_all(traffic, kWireRow, Direction::kDispatch, carried).price.time +
               network.all_to_all(traffic, kWireRow, Direction::kCombine, carried).price.time);
}

double expected_ms(const WireSetup& setup, Dedup dedup) {
  const Run run = run_of(setup);
  TrafficMatrix traffic;
  const std::vector<std::int64_t> tokens(static_cast<std::size_t>(setup.nodes), kTokens);
  TrafficModel(run.placement, run.parallelism, run.shape, dedup).layer(0, uniform(setup), tokens, traffic);
  return wire_ms(run, traffic);
}

// The first kWireTopK of a shuffled deck, for every token of the cluster.
std::vector<std::uint16_t> draw_experts(const WireSetup& setup) {
  RandomStream random(Seed{5}, "uniform routing");
  std::vector<std::uint16_t> deck(static_cast<std::size_t>(setup.experts)), ids;
  std::iota(deck.begin(), deck.end(), std::uint16_t{0});
  for (int t = 0; t < setup.nodes * kTokens; ++t) {
    for (std::size_t k = 0; k < kWireTopK; ++k) {
      std::swap(deck[k], deck[k + random.below(deck.size() - k)]);
      ids.push_back(deck[k]);
    }
  }
  return ids;
}

// Mean over the NICs, so that the busiest of a few random draws does not count as the expectation.
double drawn_ms(const WireSetup& setup, Dedup dedup) {
  const Run run = run_of(setup);
  std::vector<std::int32_t> token_gpu;
  for (int t = 0; t < setup.nodes * kTokens; ++t) {
    token_gpu.push_back(t % run.shape.gpus);
  }
  TrafficMatrix traffic;
  const std::vector<std::uint16_t> ids = draw_experts(setup);
  count_token_traffic<std::uint16_t>(run.placement, 0, run.shape, dedup, ids, token_gpu, traffic);
  const double rows = std::accumulate(traffic.inter_out.begin(), traffic.inter_out.end(), 0.0);
  return to_ms(2.0 * (kWireRow * (rows / setup.nodes) / run.cluster.node.node_rate()));
}

}  // namespace

TEST_CASE("dispatch and combine of a layer, a chunk and the request rate: within 3 % of the table") {
  for (const WireSetup& setup : kSetups) {
    CAPTURE(setup.name);
    for (const Dedup dedup : {Dedup::kGpu, Dedup::kNode}) {
      const Bounds& bounds = dedup == Dedup::kGpu ? setup.per_gpu : setup.per_node;
      CAPTURE(static_cast<int>(dedup));
      const double ms = expected_ms(setup, dedup);
      CHECK(relative_error(ms, bounds.ms) <= 0.03);
      // A chunk passes every MoE layer; every node has one in flight at a time; a request is one chunk.
      const double chunk_s = ms * 1e-3 * setup.moe_layers;
      CHECK(relative_error(chunk_s, bounds.chunk_s) <= 0.03);
      CHECK(relative_error(setup.nodes / chunk_s, bounds.requests_per_s) <= 0.03);
      CHECK(relative_error(0.8 * setup.nodes / chunk_s, bounds.requests_per_s_at_80) <= 0.03);
      // The table draws with replacement; both it and the model are near 8 different experts drawn for every token.
      const double drawn = drawn_ms(setup, dedup);
      CHECK(relative_error(drawn, bounds.ms) <= 0.03);
      CHECK(relative_error(ms, drawn) <= 0.005);
    }
  }
}

TEST_CASE("the flows of a uniform layer take the wire time too") {
  const WireSetup& setup = kSetups[0];
  const Run run = run_of(setup);
  const std::vector<std::int64_t> tokens(static_cast<std::size_t>(setup.nodes), kTokens);
  const Topology topology(plan_topology(run.cluster));
  for (const Dedup dedup : {Dedup::kGpu, Dedup::kNode}) {
    const PairRows matrix = expected_rows(run.placement, run.parallelism, run.shape, dedup, 0, uniform(setup), tokens);
    const double ms = to_ms(max_min(topology, flows_of(matrix, kWireRow)).time +
                            max_min(topology, flows_of(matrix, kWireRow, true)).time);
    CHECK(relative_error(ms, expected_ms(setup, dedup)) <= 1e-9);
  }
}
