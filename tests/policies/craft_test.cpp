// CRAFT against the worked example of its paper (Figure 10) and against its algorithms' promises.
#include "policies/placement/craft/craft.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "policies/placement/craft/layout.h"
#include "policies/plan_tools.h"
#include "sim/domain/placement.h"
#include "tests/policies/support.h"

using doctest::Approx;
using epsim::BenefitOptions;
using epsim::ClusterShape;
using epsim::CraftExplanation;
using epsim::CraftKnapsack;
using epsim::CraftObjective;
using epsim::CraftOptions;
using epsim::GainTable;
using epsim::Interleave;
using epsim::LoadWindow;
using epsim::PlacementPlan;
using epsim::test::window;
using Ints = std::vector<int>;

namespace {

constexpr ClusterShape kFourGpus{4, 2};
const std::vector<double> kModerate = {6, 4, 1, 1, 1, 1, 1, 1};
const std::vector<double> kSkewed = {5, 4, 2, 1, 1, 1, 1, 1};
const std::vector<double> kBalanced = {3, 3, 3, 3, 1, 1, 1, 1};
const std::vector<double> kOneHot = {9, 1, 1, 1, 1, 1, 1, 1};

// Figure 10: four layers of 16 units of load on four GPUs in two nodes.
LoadWindow figure_10() { return window({kModerate, kModerate, kSkewed, kBalanced}); }

CraftOptions with_factor(int factor) {
  CraftOptions out;
  out.replication_factor = factor;
  return out;
}

int slots_of(const PlacementPlan& plan, std::size_t layer, std::size_t gpu) {
  const Ints& first = plan.layers[layer].first_slot;
  return first[gpu + 1] - first[gpu];
}

// The largest objective over all choices, by trying them all.
double exhaustive(const GainTable& table, int budget, CraftObjective objective, std::size_t layer = 0) {
  if (layer == table.base.size()) {
    return budget == 0 ? 0.0 : -INFINITY;
  }
  double best = exhaustive(table, budget, objective, layer + 1);
  for (std::size_t k = 0; k < table.counts.size(); ++k) {
    if (table.counts[k] <= budget) {
      const double weight = objective == CraftObjective::kGain ? 1 : table.counts[k];
      best = std::max(
          best, weight * table.gain[k][layer] + exhaustive(table, budget - table.counts[k], objective, layer + 1));
    }
  }
  return best;
}

}  // namespace

TEST_CASE("CRAFT Figure 10: estimated gains") {
  const GainTable table = epsim::estimate_gains(figure_10(), epsim::CraftLayout::global(4), {});
  REQUIRE(table.counts == Ints{1, 2, 4});
  // Without copies: 6+1 | 4+1 | 1+1 | 1+1, 5+1 | 4+1 | 2+1 | 1+1 and 3+1 on each, of a mean of 4.
  CHECK(table.base[0] == Approx(4.0 / 7));
  CHECK(table.base[2] == Approx(4.0 / 6));
  CHECK(table.base[3] == Approx(1.0));
  // One copy of the 6 leaves 5 on a GPU, two copies (3 3 2 2) reach 4, four (1.5 x 4, 2 2) end at 4.5.
  CHECK(table.gain[0][0] == Approx(4.0 / 5 - 4.0 / 7));
  CHECK(table.gain[1][0] == Approx(1 - 4.0 / 7));
  CHECK(table.gain[2][0] == Approx(8.0 / 9 - 4.0 / 7));
  CHECK(table.gain[0][2] == Approx(4.0 / 5 - 4.0 / 6));
  CHECK(table.gain[1][2] == Approx(4.0 / 5 - 4.0 / 6));
  CHECK(table.gain[2][2] == Approx(1 - 4.0 / 6));
  // A balanced layer loses with one copy (nine slots on four GPUs) and keeps its balance with two or four.
  CHECK(table.gain[0][3] == Approx(8.0 / 9 - 1));
  CHECK(table.gain[1][3] == Approx(0.0));
  CHECK(table.gain[2][3] == Approx(0.0));
}

TEST_CASE("CRAFT C30, Figure 10: two copies per GPU balance every layer with half of the uniform budget") {
  CraftExplanation why;
  const PlacementPlan plan = epsim::craft_plan(with_factor(2), figure_10(), kFourGpus, &why);
  CHECK(why.layer_copies == Ints{2, 2, 4, 0});
  // Layer 1 has its extra slots on GPUs 0 and 2 (one a node), layer 2 on GPUs 1 and 3, layer 3 on all.
  const int slots[4][4] = {{3, 2, 3, 2}, {2, 3, 2, 3}, {3, 3, 3, 3}, {2, 2, 2, 2}};
  for (std::size_t l = 0; l < 4; ++l) {
    CAPTURE(l);
    for (std::size_t g = 0; g < 4; ++g) {
      CHECK(slots_of(plan, l, g) == slots[l][g]);
    }
    CHECK(why.balancedness[l] == 1.0);
  }
  CHECK(plan.copies_on_fullest_gpu() == 2);
  const auto placement = epsim::Placement::build(plan, kFourGpus, epsim::Bytes(1), epsim::Bytes(10));
  for (int g = 0; g < 4; ++g) {
    CHECK(placement.resident(g) == 8 + 2);
  }
}

TEST_CASE("CRAFT: the printed objective, copies x gain, moves copies away from layers that plateau") {
  // With duplicates on a GPU allowed, four copies serve the moderate layers as well as two (gain 3/7): the printed
  // objective sees 4 x 3/7 against 2 x 3/7 + 2 x 3/7 and keeps the choice that it found first.
  const LoadWindow load = window({kModerate, kModerate, kOneHot, kBalanced});
  BenefitOptions duplicates;
  duplicates.packing.allow_duplicates = true;
  const GainTable table = epsim::estimate_gains(load, epsim::CraftLayout::global(4), duplicates);
  for (std::size_t l = 0; l < 2; ++l) {
    CHECK(table.gain[1][l] == Approx(3.0 / 7));
    CHECK(table.gain[2][l] == Approx(3.0 / 7));
  }
  CHECK(CraftKnapsack(table, 8, CraftObjective::kGain).solve(8) == Ints{2, 2, 4, 0});
  CHECK(CraftKnapsack(table, 8, CraftObjective::kGainTimesR).solve(8) == Ints{4, 0, 4, 0});
  const GainTable distinct = epsim::estimate_gains(load, epsim::CraftLayout::global(4), {});
  CHECK(CraftKnapsack(distinct, 8, CraftObjective::kGain).solve(8) == Ints{2, 2, 4, 0});
}

TEST_CASE("CRAFT: gains are the mean over batches of mean / max, not that of the sum") {
  LoadWindow load(1, 2);
  load.reserve_batches(2);
  load.add_batch(std::vector<float>{2, 0});
  load.add_batch(std::vector<float>{0, 2});
  // Each expert on its own GPU: 1/2 in either batch, though the sums are equal.
  const GainTable by_batch = epsim::estimate_gains(load, epsim::CraftLayout::global(2), {});
  CHECK(by_batch.base[0] == 0.5);
  // One copy of expert 0 finds room only beside the original (expert 1 fills the smaller GPU); two copies halve both.
  CHECK(by_batch.gain[0][0] == 0.0);
  CHECK(by_batch.gain[1][0] == 0.5);
  BenefitOptions sums;
  sums.aggregate = true;
  CHECK(epsim::estimate_gains(load, epsim::CraftLayout::global(2), sums).base[0] == 1.0);
}

TEST_CASE("CRAFT: a batch without load is balanced, a literal floor division loses tokens") {
  LoadWindow load(1, 2);
  load.reserve_batches(2);
  load.add_batch(std::vector<float>{3, 1});
  load.add_batch(std::vector<float>{0, 0});
  // One copy: 3/2 on GPU 1, 3/2 + 1 on GPU 0: 2 / 2.5. Floored: 1 and 1 + 1: 1.5 / 2. The empty batch counts 1.
  const auto gain = [&](bool floored) {
    BenefitOptions options;
    options.floor_division = floored;
    const GainTable table = epsim::estimate_gains(load, epsim::CraftLayout::global(2), options);
    CHECK(table.base[0] == Approx((2.0 / 3 + 1) / 2));
    return table.gain[0][0] + table.base[0];
  };
  CHECK(gain(false) == Approx((0.8 + 1) / 2));
  CHECK(gain(true) == Approx((0.75 + 1) / 2));
}

TEST_CASE("CRAFT knapsack: as good as trying every choice, and the budget is spent exactly") {
  epsim::RandomStream random(epsim::Seed{3}, "craft knapsack");
  for (int trial = 0; trial < 30; ++trial) {
    const int layers = 1 + trial % 5, gpus = trial % 2 == 0 ? 4 : 6;
    GainTable table{.counts = epsim::craft_counts(epsim::CraftLayout::global(gpus)), .base = {}, .gain = {}};
    table.base.assign(static_cast<std::size_t>(layers), 0.5);
    table.gain.resize(table.counts.size());
    for (auto& row : table.gain) {
      for (int l = 0; l < layers; ++l) {
        row.push_back(random.uniform() - 0.3);  // some are losses
      }
    }
    for (const CraftObjective objective : {CraftObjective::kGain, CraftObjective::kGainTimesR}) {
      const CraftKnapsack knapsack(table, layers * gpus, objective);
      for (int budget = 0; budget <= layers * gpus; ++budget) {
        const double best = exhaustive(table, budget, objective);
        REQUIRE(knapsack.reachable(budget) == (best > -INFINITY));
        if (!knapsack.reachable(budget)) {
          continue;
        }
        const Ints chosen = knapsack.solve(budget);
        CHECK(std::accumulate(chosen.begin(), chosen.end(), 0) == budget);
        double reached = 0;
        for (std::size_t l = 0; l < chosen.size(); ++l) {
          const auto at = std::find(table.counts.begin(), table.counts.end(), chosen[l]) - table.counts.begin();
          if (chosen[l] > 0) {
            reached +=
                (objective == CraftObjective::kGain ? 1 : chosen[l]) * table.gain[static_cast<std::size_t>(at)][l];
          }
        }
        CHECK(reached == Approx(best));
      }
      CHECK_FALSE(knapsack.reachable(layers * gpus + 1));
    }
  }
}

TEST_CASE("CRAFT C31: candidate counts are powers of two and the number of GPUs") {
  CHECK(epsim::craft_counts(epsim::CraftLayout::global(1)) == Ints{1});
  CHECK(epsim::craft_counts(epsim::CraftLayout::global(64)) == Ints{1, 2, 4, 8, 16, 32, 64});
  CHECK(epsim::craft_counts(epsim::CraftLayout::global(48)) == Ints{1, 2, 4, 8, 16, 32, 48});
}

TEST_CASE("CRAFT interleaving: floor spreads as Figure 10 does, endpoints includes both ends") {
  using epsim::interleave_select;
  CHECK(interleave_select(4, 2, Interleave::kFloor) == Ints{0, 2});
  CHECK(interleave_select(4, 2, Interleave::kEndpoints) == Ints{0, 3});
  CHECK(interleave_select(5, 3, Interleave::kFloor) == Ints{0, 1, 3});
  CHECK(interleave_select(5, 3, Interleave::kEndpoints) == Ints{0, 2, 4});
  CHECK(interleave_select(5, 1, Interleave::kEndpoints) == Ints{0});
  CHECK(interleave_select(3, 0, Interleave::kFloor).empty());
  CHECK(interleave_select(3, 3, Interleave::kEndpoints) == Ints{0, 1, 2});
}

TEST_CASE("CRAFT C31, capacities: at most one apart in a layer, equal in total") {
  epsim::RandomStream random(epsim::Seed{4}, "craft capacities");
  for (const Interleave how : {Interleave::kFloor, Interleave::kEndpoints}) {
    for (int trial = 0; trial < 50; ++trial) {
      const int gpus = 2 + static_cast<int>(random.below(20));
      const int layers = 1 + static_cast<int>(random.below(12));
      Ints experts;
      for (int l = 0; l < layers; ++l) {
        experts.push_back(gpus + static_cast<int>(random.below(static_cast<std::uint64_t>(3 * gpus))));
      }
      const auto capacity = epsim::assign_capacities(experts, epsim::CraftLayout::global(gpus), how);
      Ints total(static_cast<std::size_t>(gpus), 0);
      for (std::size_t l = 0; l < capacity.size(); ++l) {
        const auto [low, high] = std::minmax_element(capacity[l].begin(), capacity[l].end());
        CHECK(*high - *low <= 1);
        CHECK(std::accumulate(capacity[l].begin(), capacity[l].end(), 0) == experts[l]);
        std::transform(total.begin(), total.end(), capacity[l].begin(), total.begin(), std::plus<>());
      }
      const auto [low, high] = std::minmax_element(total.begin(), total.end());
      CHECK(*high - *low == (std::accumulate(experts.begin(), experts.end(), 0) % gpus == 0 ? 0 : 1));
    }
  }
}

TEST_CASE("CRAFT: copies of one expert sit on different GPUs") {
  for (std::uint64_t index = 200; index < 210; ++index) {
    const LoadWindow load = epsim::test::random_window(epsim::test::LoadKind::kSkewed, 6, 64, index);
    const PlacementPlan plan = epsim::craft_plan(with_factor(3), load, ClusterShape{16, 8});
    for (const epsim::LayerPlan& layer : plan.layers) {
      for (int g = 0; g < plan.gpus; ++g) {
        const auto at = static_cast<std::size_t>(g);
        Ints experts(layer.slots.begin() + layer.first_slot[at], layer.slots.begin() + layer.first_slot[at + 1]);
        std::sort(experts.begin(), experts.end());
        CHECK(std::adjacent_find(experts.begin(), experts.end()) == experts.end());
      }
    }
  }
}

TEST_CASE("CRAFT Figure 9: a layer like DeepSeek-R1's 51st gains up to 16 copies") {
  // Sec. 3.2: the hottest of 256 experts has 27x the mean, the first two a fifth of the load. The rest is spread with a
  // moderate skew (lognormal, sigma 0.6). Two experts of about 0.1 against a mean GPU load of 1/64 need some seven GPUs
  // each, so that 12 to 14 copies end the matter.
  constexpr double kHottest = 27.5 / 256, kFirstTwo = 0.20;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    epsim::RandomStream random(epsim::Seed{seed}, "layer 51");
    std::vector<double> load(256);
    std::generate(load.begin() + 2, load.end(), [&] { return random.lognormal(0, 0.6); });
    const double rest = std::accumulate(load.begin(), load.end(), 0.0);
    std::transform(load.begin(), load.end(), load.begin(), [&](double x) { return x * (1 - kFirstTwo) / rest; });
    load[0] = kHottest;
    load[1] = kFirstTwo - kHottest;
    const GainTable table = epsim::estimate_gains(window({load}), epsim::CraftLayout::global(64), {});
    CHECK(table.base[0] <= 1.0 / 64 / kHottest);
    Ints counts = {0};
    std::vector<double> gains = {0};
    for (std::size_t k = 0; k < table.counts.size(); ++k) {
      counts.push_back(table.counts[k]);
      gains.push_back(table.gain[k][0]);
    }
    CHECK(epsim::knee(counts, gains) == 16);
    CHECK(gains[5] > 0.7);
    CHECK(gains[6] - gains[5] < gains[5] / 10);  // 16 -> 32 copies
  }
}

TEST_CASE("CRAFT Figure 8: beyond 16 copies a layer, twice as many bring under two points on average") {
  LoadWindow load(20, 256);
  epsim::RandomStream random(epsim::Seed{8}, "figure 8");
  for (int l = 0; l < load.layers(); ++l) {
    std::generate(load.layer(l).begin(), load.layer(l).end(), [&] { return random.lognormal(8, 1.0); });
  }
  const GainTable table = epsim::estimate_gains(load, epsim::CraftLayout::global(64), {});
  const auto mean = [&](std::size_t k) {
    return std::accumulate(table.gain[k].begin(), table.gain[k].end(), 0.0) / load.layers();
  };
  REQUIRE(table.counts[4] == 16);
  CHECK(mean(4) > 0.2);
  CHECK(mean(5) - mean(4) < 0.02);
  CHECK(mean(6) - mean(5) < 0.02);
}

TEST_CASE("CRAFT auto: the knee of a saturating curve, none where nothing is gained, literal rule picks the smallest") {
  const Ints x = {0, 1, 2, 4, 8};
  // Heights over the diagonal: 0, .5-.125, .8-.25, .9-.5, 0: the largest is at 2.
  CHECK(epsim::knee(x, std::vector<double>{0, 0.5, 0.8, 0.9, 1.0}) == 2);
  CHECK(epsim::knee(x, std::vector<double>{0, 0, 0, 0, 0}) == 0);
  CHECK(epsim::knee(x, std::vector<double>{0, -0.1, -0.1, -0.2, -0.3}) == 0);
  const epsim::FactorCurve curve{.factor = x, .gain = {0, 0.5, 0.8, 0.9, 1.0}};
  CHECK(epsim::choose_factor(curve, epsim::AutoFactor::kMaxRatio) == 1);  // .5 > .4 > .225 > .125
  // Balanced layers: equal loads, experts dividing over GPUs.
  CraftExplanation why;
  epsim::craft_plan({}, window({std::vector<double>(16, 5.0), std::vector<double>(16, 5.0)}), kFourGpus, &why);
  CHECK(why.replication_factor == 0);
}

TEST_CASE("CRAFT auto: near 8 copies per GPU on a model of Kimi-K2's size") {
  // 60 layers of 384 experts on 64 GPUs; lognormal popularity with sigma 1, whose hottest expert has some 10x the mean:
  // the paper's class of high skew (Sec. 3.2).
  LoadWindow load(60, 384);
  epsim::RandomStream random(epsim::Seed{9}, "kimi-like loads");
  for (int l = 0; l < 60; ++l) {
    std::generate(load.layer(l).begin(), load.layer(l).end(), [&] { return random.lognormal(8, 1.0); });
  }
  CraftExplanation why;
  const PlacementPlan plan = epsim::craft_plan({}, load, ClusterShape{64, 8}, &why);
  CHECK(why.replication_factor == 8);
  // Sec. 5.1: EPLB's least replication is a copy per GPU and layer, 60 / 8 as many.
  CHECK(plan.copies_on_fullest_gpu() == 8);
  const PlacementPlan eplb = epsim::test::policy("eplb")->plan(load, ClusterShape{64, 8});
  CHECK(static_cast<double>(eplb.copies_on_fullest_gpu()) / plan.copies_on_fullest_gpu() == 60.0 / 8);
  CHECK(std::accumulate(why.layer_copies.begin(), why.layer_copies.end(), 0) == 8 * 64);
}

TEST_CASE("CRAFT options: numbers, words, and what is refused") {
  using epsim::test::policy;
  const auto plan = policy("craft", "{replication_factor: 2}")->plan(figure_10(), kFourGpus);
  CHECK(plan.copies_on_fullest_gpu() == 2);
  CHECK_NOTHROW(policy("craft", "{replication_factor: auto, auto: max_ratio, interleave: endpoints, aggregate: true}"));
  CHECK_THROWS_AS(policy("craft", "{replication_factor: many}"), epsim::InputError);
  CHECK_THROWS_AS(policy("craft", "{replication_factor: -1}"), epsim::InputError);
  CHECK_THROWS_AS(policy("craft", "{replication_factor: 1.5}"), epsim::InputError);
  CHECK_THROWS_AS(policy("craft", "{replication_factor: 5}")->plan(figure_10(), kFourGpus), epsim::InputError);
  CHECK_THROWS_AS(policy("craft")->plan(window({{1, 2}}), kFourGpus), epsim::InputError);
}

TEST_CASE("CRAFT, hierarchical: groups and their copies stay inside a node") {
  // Four groups of two experts on two nodes of two GPUs. Group loads: 10, 2, 6, 2 -> the heaviest to node 0, then 6 to
  // node 1, then group 1 (2) to the lighter node 1 (full), group 3 to node 0. Node 0 holds experts 0 1 6 7 (6 4 1 1),
  // node 1 holds 4 5 2 3 (5 1 1 1). Two copies are one for each node: expert 0 (3 + 3) and expert 4 (2.5 + 2.5).
  const LoadWindow load = window({{6, 4, 1, 1, 5, 1, 1, 1}});
  CraftOptions options = with_factor(1);
  options.mode = epsim::EplbMode::kHierarchical;
  options.groups = 4;
  CHECK(epsim::craft_counts({.gpus = 4, .gpus_per_node = 2, .hierarchical = true, .groups = 4}) == Ints{2, 4});
  CHECK(epsim::craft_counts({.gpus = 48, .gpus_per_node = 8, .hierarchical = true, .groups = 6}) == Ints{48});
  CraftExplanation why;
  const PlacementPlan plan = epsim::craft_plan(options, load, kFourGpus, &why);
  CHECK(why.layer_copies == Ints{4});  // a budget of 1 x 4 GPUs
  for (std::size_t g = 0; g < 4; ++g) {
    CHECK(slots_of(plan, 0, g) == 3);
  }
  const epsim::LayerPlan& layer = plan.layers.front();
  const std::vector<int> gpu = epsim::gpus_of_slots(layer);
  for (std::size_t slot = 0; slot < layer.slots.size(); ++slot) {
    const int group = layer.slots[slot] / 2, node = gpu[slot] / 2;
    CHECK(node == (group == 0 || group == 3 ? 0 : 1));
  }
  options.groups = 3;
  CHECK_THROWS_AS(epsim::craft_plan(options, load, kFourGpus), epsim::InputError);
  options.mode = epsim::EplbMode::kAuto;  // three groups do not divide over two nodes: global
  CHECK(epsim::craft_plan(options, load, kFourGpus).layers.front().slots ==
        epsim::craft_plan(with_factor(1), load, kFourGpus).layers.front().slots);
}

TEST_CASE("CRAFT, hierarchical: several layers keep GPUs equal in total, and nodes in every layer") {
  for (std::uint64_t index = 300; index < 306; ++index) {
    const LoadWindow load = epsim::test::random_window(epsim::test::LoadKind::kSkewed, 5, 48, index);
    CraftOptions options = with_factor(2);
    options.mode = epsim::EplbMode::kHierarchical;
    options.groups = 8;
    const PlacementPlan plan = epsim::craft_plan(options, load, {16, 4});
    Ints total(16, 0);
    for (std::size_t l = 0; l < plan.layers.size(); ++l) {
      Ints node(4, 0);
      for (std::size_t g = 0; g < 16; ++g) {
        total[g] += slots_of(plan, l, g);
        node[g / 4] += slots_of(plan, l, g);
      }
      CHECK(node == Ints(4, node[0]));
    }
    CHECK(total == Ints(16, 5 * 3 + 2));  // 48 / 16 experts in five layers, and R = 2
  }
}

TEST_CASE("CRAFT interleaving by nodes: extra slots go to the node that holds fewest") {
  // Three GPUs to a node. One extra slot: GPU 0. The next layer's two: node 1 first (GPU 3), then both nodes have one
  // more; the lower node's next free GPU is 1. Floor would have taken 0, then of the tied 1..5 the 1st and the 3rd.
  const epsim::CraftLayout layout{.gpus = 6, .gpus_per_node = 3};
  const Ints experts = {7, 8, 6, 9};
  const auto capacity = epsim::assign_capacities(experts, layout, Interleave::kLeastFilledNode);
  CHECK(capacity[0] == Ints{2, 1, 1, 1, 1, 1});
  CHECK(capacity[1] == Ints{1, 2, 1, 2, 1, 1});
  CHECK(capacity[2] == Ints{1, 1, 1, 1, 1, 1});
  CHECK(capacity[3] == Ints{1, 1, 2, 1, 2, 2});
}

TEST_CASE("CRAFT Figure 10 needs its tie rule: by lower id alone the moderate layers are not balanced") {
  // {6, 4, 1 x 6} with slots (3, 2, 3, 2): copies make 3 3 2 2 1 .. 1. By less room: GPUs 1 and 3 take 3 3, GPUs 0 and
  // 2 take 2 2 and two 1s each, and 1 and 3 one each: all 4. By lower id the 3s sit on GPUs 0 and 1: GPU 0, which must
  // take two more, ends at 5.
  const std::vector<int> capacity = {3, 2, 3, 2};
  const auto busiest = [&](epsim::GpuTies ties) {
    PlacementPlan plan{.policy = "", .experts = 8, .gpus = 4, .layers = {}};
    plan.layers.push_back(epsim::place_by_capacity(kModerate, capacity, false, ties));
    const auto placed = epsim::Placement::build(plan, kFourGpus, epsim::Bytes(1), epsim::Bytes(100));
    const std::vector<double> loads = placed.gpu_loads(0, kModerate);
    return *std::max_element(loads.begin(), loads.end());
  };
  CHECK(busiest(epsim::GpuTies::kLessRoom) == 4);
  CHECK(busiest(epsim::GpuTies::kLowerId) == 5);
}

TEST_CASE("CRAFT: copies that lose balance are forced by an exact budget alone, and can be counted as no gain") {
  // Figure 10's layer 4 loses .111 with one copy and gains nothing with 2 or 4: at most 4 copies are none.
  const LoadWindow load = window({kBalanced});
  CraftOptions options = with_factor(1);
  CraftExplanation exact, at_most;
  epsim::craft_plan(options, load, kFourGpus, &exact);
  CHECK(exact.layer_copies == Ints{4});
  CHECK(exact.table.gain[0][0] == Approx(-1.0 / 9));
  options.budget = epsim::CraftBudget::kAtMost;
  options.benefit.clamp = true;
  epsim::craft_plan(options, load, kFourGpus, &at_most);
  CHECK(at_most.layer_copies == Ints{0});
  CHECK(at_most.table.gain[0][0] == 0);
}
