#include "models/network/traffic.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "sim/core/rng.h"

using namespace epsim;

namespace {

// Two nodes of two GPUs, four experts, one a GPU, each node one DP rank.
struct Small {
  ClusterShape shape{.gpus = 4, .gpus_per_node = 2};
  Parallelism parallelism{.gpus = 4, .attention_tp = 2};
  PlacementPlan plan{.policy = "test", .experts = 4, .gpus = 4, .layers = {uniform_layer({0, 1, 2, 3}, 4)}};
  Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(100));
};

StepLoads one_source(std::vector<float> pi) {
  StepLoads loads;
  loads.resize(1, 1, static_cast<int>(pi.size()));
  loads.per_token = std::move(pi);
  return loads;
}

double sum_of(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

}  // namespace

TEST_CASE("rows of a small cluster, worked out by hand") {
  Small s;
  TrafficMatrix t;
  TrafficModel model(s.placement, s.parallelism, s.shape, Dedup::kGpu);
  // Rank 0 brings 100 tokens (50 a GPU), rank 1 none. Every token uses expert 0 (GPU 0), half use expert 2 (GPU 2).
  const std::vector<std::int64_t> tokens{100, 0};
  model.layer(0, one_source({1.0F, 0.0F, 0.5F, 0.0F}), tokens, t);
  CHECK(t.executed == std::vector<double>{100, 0, 50, 0});
  CHECK(t.touched[0] == 1.0);
  CHECK(t.touched[1] == 0.0);
  // GPU 1 sends its 50 tokens to GPU 0 inside the node; GPU 0's own stay. Both send half of 50 to GPU 2.
  CHECK(t.intra_out == std::vector<double>{0, 50, 0, 0});
  CHECK(t.intra_in == std::vector<double>{50, 0, 0, 0});
  CHECK(t.inter_out == std::vector<double>{25, 25, 0, 0});
  CHECK(t.inter_in == std::vector<double>{0, 0, 50, 0});
}

TEST_CASE("de-duplication: pairs, GPUs, nodes") {
  // One node of one GPU sends to a node of two GPUs that hold two experts each; a token uses all four.
  const ClusterShape shape{.gpus = 4, .gpus_per_node = 2};
  const Parallelism parallelism{.gpus = 4, .attention_tp = 2};
  PlacementPlan plan{.policy = "test", .experts = 8, .gpus = 4, .layers = {uniform_layer({4, 5, 6, 7, 0, 1, 2, 3}, 4)}};
  const Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(100));
  const StepLoads loads = one_source({1, 1, 1, 1, 0, 0, 0, 0});
  const std::vector<std::int64_t> tokens{20, 0};  // 10 tokens on each GPU of node 0; experts 0..3 are on node 1
  TrafficMatrix t;
  TrafficModel(placement, parallelism, shape, Dedup::kNone).layer(0, loads, tokens, t);
  CHECK(t.inter_out == std::vector<double>{40, 40, 0, 0});  // 10 tokens x 4 experts
  TrafficModel(placement, parallelism, shape, Dedup::kGpu).layer(0, loads, tokens, t);
  CHECK(t.inter_out == std::vector<double>{20, 20, 0, 0});  // 10 tokens x 2 GPUs
  CHECK(sum_of(t.intra_out) == 0.0);
  TrafficModel(placement, parallelism, shape, Dedup::kNode).layer(0, loads, tokens, t);
  CHECK(t.inter_out == std::vector<double>{10, 10, 0, 0});  // 10 tokens x 1 node
  CHECK(t.inter_in == std::vector<double>{0, 0, 10, 10});   // landing on the GPU of the same index
  CHECK(t.intra_out == std::vector<double>{0, 0, 10, 10});  // which passes each token to its neighbour
  CHECK(t.intra_in == std::vector<double>{0, 0, 10, 10});
}

TEST_CASE("copies share their expert's load evenly and keep it near") {
  const ClusterShape shape{.gpus = 2, .gpus_per_node = 2};
  const Parallelism parallelism{.gpus = 2, .attention_tp = 2};
  PlacementPlan plan{.policy = "test", .experts = 2, .gpus = 2, .layers = {uniform_layer({0, 1, 0, 0}, 2)}};
  const Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(100));
  TrafficMatrix t;
  TrafficModel model(placement, parallelism, shape, Dedup::kNone);
  model.layer(0, one_source({0.9F, 0.1F}), std::vector<std::int64_t>{300}, t);
  CHECK(t.executed[0] == doctest::Approx(300 * (0.9 / 3 + 0.1)).epsilon(1e-6));
  CHECK(t.executed[1] == doctest::Approx(300 * (2 * 0.9 / 3)).epsilon(1e-6));
  CHECK(t.intra_out[0] == doctest::Approx(150 * 0.6).epsilon(1e-6));  // GPU 0's tokens for GPU 1's two copies
}

TEST_CASE("uniform top-8 of 256 on 64 GPUs: 6.7 remote-node GPUs a token") {
  // 8 different experts of 256, 4 of them on a GPU: 56 x (1 - C(252, 8) / C(256, 8)) = 6.716. Independent experts would
  // give 56 x (1 - (31/32)^4) = 6.679, drawing with replacement 56 x (1 - (63/64)^8) = 6.63.
  const ClusterShape shape{.gpus = 64, .gpus_per_node = 8};
  const Parallelism parallelism{.gpus = 64, .attention_tp = 8};
  std::vector<int> slots(256);
  std::iota(slots.begin(), slots.end(), 0);
  PlacementPlan plan{.policy = "test", .experts = 256, .gpus = 64, .layers = {uniform_layer(slots, 64)}};
  const Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(1000));
  TrafficMatrix t;
  TrafficModel model(placement, parallelism, shape, Dedup::kGpu);
  model.layer(0, one_source(std::vector<float>(256, 8.0F / 256.0F)), std::vector<std::int64_t>(8, 4096), t);
  const double per_token = sum_of(t.inter_out) / (8 * 4096);
  double missed = 1;
  for (int i = 0; i < 8; ++i) {
    missed *= (252.0 - i) / (256.0 - i);
  }
  CHECK(per_token == doctest::Approx(56 * (1 - missed)).epsilon(1e-4));
  CHECK(per_token == doctest::Approx(6.63).epsilon(0.03));
}

TEST_CASE("whatever the loads, rows are conserved") {
  const ClusterShape shape{.gpus = 8, .gpus_per_node = 4};
  for (const int tp : {1, 2, 4, 8}) {
    for (const int sources : {1, 8 / tp}) {
      const Parallelism parallelism{.gpus = 8, .attention_tp = tp};
      RandomStream random(Seed{3}, "traffic", static_cast<std::uint64_t>(tp), static_cast<std::uint64_t>(sources));
      std::vector<int> slots;
      for (int i = 0; i < 16; ++i) {
        slots.push_back(i < 12 ? i : static_cast<int>(random.below(12)));
      }
      PlacementPlan plan{.policy = "test", .experts = 12, .gpus = 8, .layers = {uniform_layer(slots, 8)}};
      const Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(1000));
      StepLoads loads;
      loads.resize(1, sources, 12);
      std::vector<std::int64_t> tokens;
      for (int r = 0; r < 8 / tp; ++r) {
        tokens.push_back(static_cast<std::int64_t>(random.below(500)));
      }
      double routed = 0;
      for (int s = 0; s < sources; ++s) {
        double row = 0;
        for (float& pi : loads.row(0, s)) {
          pi = static_cast<float>(random.uniform());
          row += static_cast<double>(pi);
        }
        const std::int64_t own = sources == 1 ? std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0})
                                              : tokens[static_cast<std::size_t>(s)];
        routed += row * static_cast<double>(own);
      }
      for (const Dedup dedup : {Dedup::kNone, Dedup::kGpu, Dedup::kNode}) {
        TrafficMatrix t;
        TrafficModel(placement, parallelism, shape, dedup).layer(0, loads, tokens, t);
        CHECK(sum_of(t.executed) == doctest::Approx(routed).epsilon(1e-6));
        CHECK(sum_of(t.intra_out) == doctest::Approx(sum_of(t.intra_in)).epsilon(1e-9));
        CHECK(sum_of(t.inter_out) == doctest::Approx(sum_of(t.inter_in)).epsilon(1e-9));
      }
    }
  }
}
