#include "tests/support/token_traffic.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/rng.h"

using namespace epsim;

namespace {

double sum(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

}  // namespace

TEST_CASE("token by token: experts that go together share their row") {
  // Two nodes of two GPUs, experts 0 1 | 2 3 | 4 5 | 6 7.
  const ClusterShape shape{.gpus = 4, .gpus_per_node = 2};
  const PlacementPlan plan{
      .policy = "test", .experts = 8, .gpus = 4, .layers = {uniform_layer({0, 1, 2, 3, 4, 5, 6, 7}, 4)}};
  const Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(100));
  // A token on GPU 0 with experts 2, 3 and 6; one on GPU 3 with 0, 2 and 4.
  const std::vector<std::uint8_t> ids{2, 3, 6, 0, 2, 4};
  const std::vector<std::int32_t> gpu{0, 3};
  TrafficMatrix t;
  const auto count = [&](Dedup dedup) { count_token_traffic<std::uint8_t>(placement, 0, shape, dedup, ids, gpu, t); };
  count(Dedup::kNone);
  CHECK(t.executed == std::vector<double>{1, 3, 1, 1});
  CHECK(t.touched == std::vector<double>{1, 2, 1, 1});
  CHECK(t.intra_out == std::vector<double>{2, 0, 0, 1});
  CHECK(t.intra_in == std::vector<double>{0, 2, 1, 0});
  CHECK(t.inter_out == std::vector<double>{1, 0, 0, 2});
  CHECK(t.inter_in == std::vector<double>{1, 1, 0, 1});
  count(Dedup::kGpu);  // experts 2 and 3 are one row
  CHECK(t.intra_out == std::vector<double>{1, 0, 0, 1});
  CHECK(t.inter_out == std::vector<double>{1, 0, 0, 2});
  count(Dedup::kNode);  // GPU 3's token lands on GPU 1 and goes on to GPU 0; GPU 0's lands on 2 and goes on to 3
  CHECK(t.inter_out == std::vector<double>{1, 0, 0, 1});
  CHECK(t.inter_in == std::vector<double>{0, 1, 1, 0});
  CHECK(t.intra_out == std::vector<double>{1, 1, 1, 1});
  CHECK(t.intra_in == std::vector<double>{1, 1, 1, 1});
}

TEST_CASE("token by token: copies share as the source's shares say") {
  const ClusterShape shape{.gpus = 2, .gpus_per_node = 1};
  const PlacementPlan plan{.policy = "test", .experts = 2, .gpus = 2, .layers = {uniform_layer({0, 1, 0, 1}, 2)}};
  // GPU 0 keeps expert 0 and splits expert 1 in halves; GPU 1 keeps both.
  const Placement placement =
      Placement::build(plan, shape, Bytes(1), Bytes(100), {{1, {1, 0.5F, 0, 0.5F, 0, 0, 1, 1}}});
  const std::vector<std::uint16_t> ids{0, 1, 0, 1, 0, 1};
  TrafficMatrix t;
  count_token_traffic<std::uint16_t>(placement, 0, shape, Dedup::kGpu, ids, std::vector<std::int32_t>{0, 0, 1}, t);
  CHECK(t.executed == std::vector<double>{3, 3});
  CHECK(t.inter_out == std::vector<double>{1, 0});
  CHECK(t.touched == std::vector<double>{1 + 0.75, 2});  // expert 1 stays unused on GPU 0 with chance 1/4
}

TEST_CASE("token by token: copies of one expert in a node exclude each other") {
  // Expert 0 has a copy on both GPUs of node 1, each for half of its tokens: a token on GPU 0 that uses it crosses to
  // node 1 for sure, as one row, and is computed by the GPU that it lands on (its index, 0) or by the other one.
  const ClusterShape shape{.gpus = 4, .gpus_per_node = 2};
  const LayerPlan layer{.slots = {1, 2, 3, 0, 0}, .first_slot = {0, 1, 3, 4, 5}, .copy_rank = {}};
  const PlacementPlan plan{.policy = "test", .experts = 4, .gpus = 4, .layers = {layer}};
  const Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(100));
  TrafficMatrix t;
  count_token_traffic<std::uint8_t>(placement, 0, shape, Dedup::kNode, std::vector<std::uint8_t>{0},
                                    std::vector<std::int32_t>{0}, t);
  CHECK(t.inter_out == std::vector<double>{1, 0, 0, 0});
  CHECK(t.intra_out == std::vector<double>{0, 0, 0.5, 0});
  CHECK(t.executed == std::vector<double>{0, 0, 0.5, 0.5});
}

TEST_CASE("token by token agrees with the model of chances where experts are independent") {
  const ClusterShape shape{.gpus = 8, .gpus_per_node = 4};
  const Parallelism parallelism{.gpus = 8, .attention_tp = 1};
  constexpr int kExperts = 64, kTopK = 4, kTokens = 20000;
  std::vector<int> slots(kExperts);
  std::iota(slots.begin(), slots.end(), 0);
  const PlacementPlan plan{.policy = "test", .experts = kExperts, .gpus = 8, .layers = {uniform_layer(slots, 8)}};
  const Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(1000));
  RandomStream random(Seed{8}, "token traffic");
  std::vector<std::uint8_t> ids;
  std::vector<std::int32_t> gpu;
  for (int t = 0; t < kTokens; ++t) {
    std::vector<std::uint8_t> chosen;
    while (chosen.size() < kTopK) {
      const auto e = static_cast<std::uint8_t>(random.below(kExperts));
      if (std::find(chosen.begin(), chosen.end(), e) == chosen.end()) {
        chosen.push_back(e);
      }
    }
    ids.insert(ids.end(), chosen.begin(), chosen.end());
    gpu.push_back(t % 8);
  }
  StepLoads loads;
  loads.resize(1, 1, kExperts);
  loads.per_token.assign(kExperts, static_cast<float>(kTopK) / kExperts);
  for (const Dedup dedup : {Dedup::kNone, Dedup::kGpu, Dedup::kNode}) {
    TrafficMatrix exact, model;
    count_token_traffic<std::uint8_t>(placement, 0, shape, dedup, ids, gpu, exact);
    TrafficModel(placement, parallelism, shape, dedup)
        .layer(0, loads, std::vector<std::int64_t>(8, kTokens / 8), model);
    CHECK(sum(exact.executed) == kTokens * kTopK);
    // Drawing without replacement reaches a few more GPUs than independent draws: 1 - C(56,4)/C(64,4) = .4220 a GPU
    // against 1 - (15/16)^8 = .4033; 1 - C(32,4)/C(64,4) = .9434 a node against 1 - (15/16)^32 = .8732, 8 % more.
    CHECK(sum(exact.inter_out) == doctest::Approx(sum(model.inter_out)).epsilon(0.09));
    CHECK(sum(exact.intra_out) == doctest::Approx(sum(model.intra_out)).epsilon(0.09));
    CHECK(sum(exact.inter_out) == doctest::Approx(sum(exact.inter_in)));
    CHECK(sum(exact.intra_out) == doctest::Approx(sum(exact.intra_in)));
    if (dedup == Dedup::kGpu) {
      const double reach = 1 - 56.0 * 55 * 54 * 53 / (64.0 * 63 * 62 * 61);
      CHECK(sum(exact.inter_out) / kTokens == doctest::Approx(4 * reach).epsilon(0.01));
    }
  }
}

TEST_CASE("token by token: what does not fit together is refused") {
  const ClusterShape shape{.gpus = 2, .gpus_per_node = 2};
  const PlacementPlan plan{.policy = "test", .experts = 2, .gpus = 2, .layers = {uniform_layer({0, 1}, 2)}};
  const Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(100));
  TrafficMatrix t;
  const auto count = [&](std::vector<std::uint8_t> ids, std::vector<std::int32_t> gpu) {
    count_token_traffic<std::uint8_t>(placement, 0, shape, Dedup::kGpu, ids, gpu, t);
  };
  CHECK_THROWS_AS(count({0, 1, 0}, {0, 1}), InvariantBroken);
  CHECK_THROWS_AS(count({2}, {0}), InvariantBroken);
}
