// How experts that serve the same tokens enter the rows that are sent once, by hand.
#include "models/network/joint_use.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "models/network/miss_probability.h"
#include "models/network/soa_slots.h"
#include "models/network/traffic.h"
#include "sim/core/rng.h"
#include "tests/support/token_traffic.h"

using namespace epsim;

namespace {

// Two nodes of one GPU, experts 0 1 | 2 3, top-2; every expert takes half of the tokens.
constexpr ClusterShape kTwoNodes{.gpus = 2, .gpus_per_node = 1};

Placement two_and_two() {
  return Placement::build({.policy = "test", .experts = 4, .gpus = 2, .layers = {uniform_layer({0, 1, 2, 3}, 2)}},
                          kTwoNodes, Bytes(1), Bytes(100));
}

TokenSample pairs(std::vector<std::uint16_t> ids) { return {.layers = 1, .top_k = 2, .experts = std::move(ids)}; }

// Rows of 100 tokens of each GPU to the other one.
double sent(Dedup dedup, const TokenSample* tokens) {
  StepLoads loads;
  loads.resize(1, 1, 4);
  loads.per_token.assign(4, 0.5F);
  const Placement placement = two_and_two();
  TrafficMatrix t;
  TrafficModel(placement, {.gpus = 2, .attention_tp = 1}, kTwoNodes, dedup, {.tokens = tokens})
      .layer(0, loads, std::vector<std::int64_t>{100, 100}, t);
  CHECK(t.inter_out[0] == doctest::Approx(t.inter_out[1]));
  return t.inter_out[0];
}

}  // namespace

TEST_CASE("a step with the sample's loads sends what the sample counts") {
  const TokenSample together = pairs({0, 1, 2, 3}), across = pairs({0, 2, 0, 3, 1, 2, 1, 3});
  for (const Dedup dedup : {Dedup::kGpu, Dedup::kNode}) {
    // Experts 0 and 1 serve the same half of the tokens: 50 rows. No token has both experts of a GPU: all 100, but for
    // the half token that stands for none of four, so an eighth.
    CHECK(sent(dedup, &together) == doctest::Approx(50).epsilon(1e-7));
    CHECK(sent(dedup, &across) == doctest::Approx(100 - 100.0 / 8).epsilon(1e-7));
    // Independent, but for top-2: 1 - 1/4 exp(-(1 - 1/2) / 2V) with V = 4 x 1/4.
    CHECK(sent(dedup, nullptr) == doctest::Approx(100 * (1 - 0.25 * std::exp(-0.25))).epsilon(1e-6));
  }
  CHECK(sent(Dedup::kNone, &together) == doctest::Approx(100));  // one row an expert, whoever else serves the token
}

TEST_CASE("exponents: copies of a set, lane by lane and list by list") {
  // Half of the tokens go to experts 0 and 1, half to 2 and 3: a GPU is missed by half, by independent experts less.
  const Placement placement = two_and_two();
  const NodeShares nodes = node_shares(placement.layer(0), kTwoNodes);
  const CopySets sets = copy_sets(placement.layer(0), common_lanes(kTwoNodes), &nodes);
  const TokenSample together = pairs({0, 1, 2, 3});
  const JointUse use = joint_use(sets, 2, {.tokens = &together}, 0);
  const double alone = 0.25 * std::exp(-0.25);
  REQUIRE(use.lanes.size() == 2);
  REQUIRE(use.lists.size() == 2);
  for (const double c : {use.lanes[0], use.lanes[1], use.lists[0], use.lists[1]}) {
    CHECK(c == doctest::Approx(std::log(0.5) / std::log(alone)).epsilon(1e-6));
  }
  // Experts that the sample never uses say nothing.
  const TokenSample half = pairs({0, 1, 0, 1});
  CHECK(joint_use(sets, 2, {.tokens = &half}, 0).lanes[1] == 1);
}

namespace {

constexpr int kGrouped = 64, kGroups = 8, kOpen = 4, kUsed = 8, kDrawn = 20000;

// A place by weight, whose weight becomes 0.
std::size_t take(RandomStream& random, std::vector<double>& weights) {
  double left = random.uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t at = 0;
  for (; at + 1 < weights.size() && left >= weights[at]; ++at) {
    left -= weights[at];
  }
  weights[at] = 0;
  return at;
}

// Tokens that open 4 of 8 groups one after another, then take 8 of their experts, some experts `skew` times as often as
// others.
std::vector<std::uint16_t> grouped_tokens(double skew) {
  RandomStream random(Seed{7}, "grouped");
  std::vector<double> weight(kGrouped), groups(kGroups, 0.0);
  for (std::size_t e = 0; e < kGrouped; ++e) {
    weight[e] =
        std::pow(skew, random.uniform()) * (skew > 1 && e < kGrouped / kGroups ? 2.5 : 1);  // one group of more load
    groups[e / (kGrouped / kGroups)] += weight[e];
  }
  std::vector<std::uint16_t> out;
  for (int t = 0; t < kDrawn; ++t) {
    std::vector<double> closed = groups, open(kGrouped, 0.0);
    for (int i = 0; i < kOpen; ++i) {
      const std::size_t first = take(random, closed) * (kGrouped / kGroups);
      std::copy_n(weight.begin() + static_cast<std::ptrdiff_t>(first), kGrouped / kGroups,
                  open.begin() + static_cast<std::ptrdiff_t>(first));
    }
    for (int k = 0; k < kUsed; ++k) {
      out.push_back(static_cast<std::uint16_t>(take(random, open)));
    }
  }
  return out;
}

// Rows between nodes and inside, by groups, over those counted token by token; `stride` 1: experts in order.
std::pair<double, double> off_by_groups(std::span<const std::uint16_t> ids, int gpus, int stride, Dedup dedup,
                                        bool groups_known) {
  const ClusterShape shape{.gpus = gpus, .gpus_per_node = 2};
  std::vector<int> slots;
  for (int i = 0; i < kGrouped; ++i) {
    slots.push_back(i * stride % kGrouped + i * stride / kGrouped);
  }
  const Placement placement =
      Placement::build({.policy = "test", .experts = kGrouped, .gpus = gpus, .layers = {uniform_layer(slots, gpus)}},
                       shape, Bytes(1), Bytes(100));
  StepLoads loads;
  loads.resize(1, 1, kGrouped);
  loads.per_token.assign(kGrouped, 0.0F);
  LoadWindow window(1, kGrouped);
  for (const std::uint16_t e : ids) {
    loads.row(0, 0)[e] += 1.0F / kDrawn;
    window.layer(0)[e] += 1;
  }
  TrafficMatrix counted, priced;
  std::vector<std::int32_t> from;
  for (int t = 0; t < kDrawn; ++t) {
    from.push_back(t % gpus);
  }
  count_token_traffic<std::uint16_t>(placement, 0, shape, dedup, ids, from, counted);
  UsedTogether together{.loads = &window, .top_k = kUsed, .groups = kGroups, .top_groups = kOpen};
  together.top_groups = groups_known ? kOpen : kGroups;
  TrafficModel(placement, {.gpus = gpus, .attention_tp = 1}, shape, dedup, together)
      .layer(0, loads, std::vector<std::int64_t>(static_cast<std::size_t>(gpus), kDrawn / gpus), priced);
  const auto ratio = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::accumulate(a.begin(), a.end(), 0.0) / std::accumulate(b.begin(), b.end(), 0.0);
  };
  return {ratio(priced.inter_out, counted.inter_out), ratio(priced.intra_out, counted.intra_out)};
}

}  // namespace

TEST_CASE("routing limited to groups sends to fewer nodes where these hold whole groups") {
  for (const double skew : {1.0, 8.0}) {
    CAPTURE(skew);
    const std::vector<std::uint16_t> ids = grouped_tokens(skew);
    for (const int gpus : {16, 8}) {  // a node holds a group, or two
      for (const int stride : {1, 8}) {
        for (const Dedup dedup : {Dedup::kNode, Dedup::kGpu}) {
          CAPTURE(gpus);
          CAPTURE(stride);
          CAPTURE(dedup == Dedup::kNode);
          const auto [between, inside] = off_by_groups(ids, gpus, stride, dedup, true);
          // Groups that open one after another are not quite open in proportion to their load.
          CHECK(between == doctest::Approx(1).epsilon(skew > 1 ? 0.03 : 0.01));
          CHECK(inside == doctest::Approx(1).epsilon(0.03));
        }
      }
    }
    // Independent experts reach 4.6 other nodes of 8 where 3.2 are: 7 (1 - (7/8)^8) against 7 (1/2) (1 - (3/4)^8).
    CHECK(off_by_groups(ids, 16, 1, Dedup::kNode, false).first > 1.3);
  }
}

TEST_CASE("a step whose tokens are recorded sends what they count, copies and sources included") {
  // Two nodes of two GPUs; experts 0 to 7 in order, 0 and 5 with copies elsewhere, which every source sees otherwise.
  const ClusterShape shape{.gpus = 4, .gpus_per_node = 2};
  const LayerPlan layer{.slots = {0, 1, 5, 2, 3, 0, 4, 5, 6, 7, 0}, .first_slot = {0, 3, 6, 8, 11}, .copy_rank = {}};
  const SourceShares shares{
      2, {0.5F, 1, 0.25F, 1, 1, 0.5F, 1, 0.75F, 1, 1, 0, 0.25F, 1, 0, 1, 1, 0.25F, 1, 1, 1, 1, 0.5F}};
  const Parallelism parallelism{.gpus = 4, .attention_tp = 1};
  std::vector<std::uint16_t> ids;
  RandomStream random(Seed{2}, "recorded");
  constexpr int kTokens = 64;
  for (int t = 0; t < kTokens; ++t) {
    const auto first = static_cast<std::uint16_t>(random.below(8));
    ids.push_back(first);
    ids.push_back(static_cast<std::uint16_t>((first + 1 + random.below(7)) % 8));
  }
  StepLoads loads;
  loads.resize(1, 1, 8);
  loads.per_token.assign(8, 0.0F);
  for (const std::uint16_t e : ids) {
    loads.row(0, 0)[e] += 1.0F / kTokens;
  }
  const int recording = 0;
  loads.recorded = {&recording, 3, 2, ids, nullptr};
  const TokenSample others = pairs({0, 1, 2, 3, 4, 5, 6, 7});
  // Every GPU has all of the tokens.
  std::vector<std::uint16_t> on_every_gpu;
  std::vector<std::int32_t> gpu;
  for (int g = 0; g < 4; ++g) {
    on_every_gpu.insert(on_every_gpu.end(), ids.begin(), ids.end());
    gpu.insert(gpu.end(), kTokens, g);
  }
  for (const bool by_source : {false, true}) {
    const Placement placement =
        Placement::build({.policy = "test", .experts = 8, .gpus = 4, .layers = {layer}}, shape, Bytes(1), Bytes(100),
                         by_source ? std::vector<SourceShares>{shares} : std::vector<SourceShares>{});
    for (const Dedup dedup : {Dedup::kGpu, Dedup::kNode}) {
      TrafficMatrix counted, priced;
      count_token_traffic<std::uint16_t>(placement, 0, shape, dedup, on_every_gpu, gpu, counted);
      TrafficModel model(placement, parallelism, shape, dedup, {.tokens = &others});
      for (int time = 0; time < 2; ++time) {  // counted, and looked up
        model.layer(0, loads, std::vector<std::int64_t>(4, kTokens), priced);
        for (std::size_t g = 0; g < 4; ++g) {
          CHECK(priced.inter_out[g] == doctest::Approx(counted.inter_out[g]).epsilon(1e-6));
          CHECK(priced.inter_in[g] == doctest::Approx(counted.inter_in[g]).epsilon(1e-6));
          CHECK(priced.intra_out[g] == doctest::Approx(counted.intra_out[g]).epsilon(1e-6));
          CHECK(priced.intra_in[g] == doctest::Approx(counted.intra_in[g]).epsilon(1e-6));
          CHECK(priced.executed[g] == doctest::Approx(counted.executed[g]).epsilon(1e-6));
        }
      }
    }
  }
}

TEST_CASE("powers of misses, one by one and side by side") {
  for (const double power : {0.05, 0.4, 1.0, 1.7, 12.0}) {
    for (const double pi : {1e-9, 1e-4, 0.1, 0.5, 0.7, 0.999, 1.0}) {
      MissProbability missed;
      missed.add(pi, 1.0);
      missed.add(0.3, 0.5);
      const double expected = std::pow(std::max(missed.value(0.25), 1e-12 * 0.9), power);
      CHECK(missed.value(0.25, power) == doctest::Approx(expected).epsilon(pi == 1.0 ? 0.2 * power : 1e-7));
      if (pi < 1) {
        CHECK(std::abs(1 - missed.value(0.25, power) - (1 - expected)) < 1e-8);
      }
    }
  }
  const Placement placement = two_and_two();
  const SoaSlots slots(placement.layer(0), common_lanes(kTwoNodes));
  const std::vector<float> pi{0.9F, 0.2F, 0.6F, 0.3F};
  SlotValues values;
  std::vector<double> out;
  slots.gather(pi, values);
  slots.reach(values, pair_weight(pi), std::vector<double>{0.5, 1.5}, out);
  for (std::size_t g = 0; g < 2; ++g) {
    MissProbability missed;
    missed.add(static_cast<double>(pi[2 * g]), 1.0);
    missed.add(static_cast<double>(pi[2 * g + 1]), 1.0);
    CHECK(out[g] == doctest::Approx(1 - missed.value(pair_weight(pi), g == 0 ? 0.5 : 1.5)).epsilon(1e-9));
  }
}
