// GRACE-MoE's formulas on numbers small enough to do by hand, and the signs of its component study on tokens with
// topics.
#include "policies/placement/grace/grace.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "policies/replica_choice/grace_routing.h"
#include "sim/domain/affinity.h"
#include "sim/domain/placement.h"
#include "tests/policies/grace_support.h"
#include "tests/policies/support.h"
#include "tests/support/routing_window.h"

using doctest::Approx;
using epsim::AffinityMatrix;
using epsim::ClusterShape;
using epsim::GraceCopies;
using epsim::GraceOptions;
using epsim::GraceScore;
using epsim::Grouping;
using epsim::LoadWindow;
using epsim::PlacementPlan;
using epsim::Seed;
using epsim::WeightedRule;
namespace test = epsim::test;
using Ints = std::vector<int>;

namespace {

struct Pair {
  int a, b;
  double affinity;
};
AffinityMatrix matrix(int n, const std::vector<Pair>& pairs) {
  std::vector<double> values(static_cast<std::size_t>(n * n), 0.0);
  for (const Pair& pair : pairs) {
    values[static_cast<std::size_t>(pair.a * n + pair.b)] = pair.affinity;
    values[static_cast<std::size_t>(pair.b * n + pair.a)] = pair.affinity;
  }
  return {n, values};
}

// Tokens of eight topics, topic t at home in experts t, t + 8, t + 16, ..; a slot is off topic one time in five. The
// first topics are asked for most, so that grouping by topic makes some groups heavy.
constexpr int kGraceLayers = 3, kExperts = 64, kGraceTopK = 4, kTopics = 8;
std::vector<std::uint8_t> topical_tokens(int tokens, std::uint64_t index) {
  epsim::RandomStream random(Seed{41}, "topical tokens", index);
  std::vector<std::uint8_t> ids;
  for (int t = 0; t < tokens; ++t) {
    const auto topic = static_cast<std::uint64_t>(kTopics * random.uniform() * random.uniform());
    for (int l = 0; l < kGraceLayers; ++l) {
      std::set<std::uint64_t> chosen;
      while (chosen.size() < kGraceTopK) {
        const bool on_topic = random.uniform() < 0.8;
        chosen.insert(on_topic ? topic + kTopics * random.below(kExperts / kTopics) : random.below(kExperts));
      }
      for (const std::uint64_t e : chosen) {
        ids.push_back(static_cast<std::uint8_t>(e));
      }
    }
  }
  return ids;
}

LoadWindow topical_window(const std::vector<std::uint8_t>& ids) {
  return epsim::test::window_from_routing<std::uint8_t>(ids, {kGraceLayers, kExperts, kGraceTopK});
}

// Mean per token and layer of the copies sent to other nodes (one per node) and to other GPUs of the own node (one per
// GPU), and the deviation of GPU loads over their mean, averaged over layers.
struct GraceOutcome {
  double cross_node = 0, cross_gpu = 0, load_deviation = 0;
};

class Router {
 public:
  Router(const PlacementPlan& plan, const ClusterShape& shape) : shape_(shape) {
    for (const epsim::LayerPlan& layer : plan.layers) {
      auto& holders = holders_.emplace_back(kExperts);
      for (int g = 0; g < plan.gpus; ++g) {
        const auto at = static_cast<std::size_t>(g);
        for (int s = layer.first_slot[at]; s < layer.first_slot[at + 1]; ++s) {
          holders[static_cast<std::size_t>(layer.slots[static_cast<std::size_t>(s)])].push_back(g);
        }
      }
    }
  }

  // weights[layer][GPU]; one weight for all when a layer has none.
  GraceOutcome route(const std::vector<std::uint8_t>& ids, WeightedRule rule,
                     std::vector<std::vector<double>> weights) const {
    weights.resize(kGraceLayers, std::vector<double>(static_cast<std::size_t>(shape_.gpus), 1.0));
    epsim::RandomStream random(Seed{42}, "routing");
    std::vector<std::vector<double>> load(kGraceLayers,
                                          std::vector<double>(static_cast<std::size_t>(shape_.gpus), 0.0));
    GraceOutcome out;
    const double tokens = static_cast<double>(ids.size()) / (kGraceLayers * kGraceTopK);
    for (std::size_t at = 0; at < ids.size();) {
      const int home = static_cast<int>(random.below(static_cast<std::uint64_t>(shape_.gpus)));
      for (std::size_t l = 0; l < kGraceLayers; ++l) {
        std::set<int> nodes, gpus;
        for (int slot = 0; slot < kGraceTopK; ++slot, ++at) {
          const int g = test::choose_copy(home, holders_[l][ids[at]], weights[l], shape_, rule, random);
          ++load[l][static_cast<std::size_t>(g)];
          const bool own_node = shape_.node_of(g) == shape_.node_of(home);
          (own_node ? gpus : nodes).insert(own_node ? g : shape_.node_of(g));
        }
        gpus.erase(home);
        out.cross_node += static_cast<double>(nodes.size()) / tokens / kGraceLayers;
        out.cross_gpu += static_cast<double>(gpus.size()) / tokens / kGraceLayers;
      }
    }
    for (const auto& gpus : load) {
      const double mean = std::accumulate(gpus.begin(), gpus.end(), 0.0) / shape_.gpus;
      double squares = 0;
      for (const double x : gpus) {
        squares += (x - mean) * (x - mean);
      }
      out.load_deviation += std::sqrt(squares / shape_.gpus) / mean / kGraceLayers;
    }
    return out;
  }

 private:
  ClusterShape shape_;
  std::vector<std::vector<Ints>> holders_;  // [layer][expert]
};

}  // namespace

TEST_CASE("GRACE sizes: E = floor(n / D), delta at least 1, halves to even") {
  const auto sizes = [](int experts, int groups, double ratio) {
    const epsim::SizeBounds bounds = epsim::controlled_sizes(experts, groups, ratio);
    return std::pair(bounds.min, bounds.max);
  };
  CHECK(sizes(64, 8, 0.15) == std::pair(7, 9));       // 8 x 0.15 = 1.2
  CHECK(sizes(64, 8, 0.0) == std::pair(7, 9));        // not below 1
  CHECK(sizes(64, 4, 0.15625) == std::pair(14, 18));  // 2.5 to 2
  CHECK(sizes(28, 4, 0.5) == std::pair(3, 11));       // 3.5 to 4
  CHECK(sizes(4, 4, 0.15) == std::pair(1, 2));        // never an empty group
}

TEST_CASE("GRACE clusters: scattered blocks of affinity are found, loners included") {
  // Even experts but the last form one block, odd ones another, 10 serves no token.
  std::vector<Pair> pairs;
  for (int a = 0; a < 10; ++a) {
    for (int b = a + 1; b < 10; ++b) {
      pairs.push_back({a, b, a % 2 == b % 2 ? 10.0 : 0.5});
    }
  }
  Grouping groups = epsim::spectral_groups(matrix(11, pairs), 3, Seed{1});
  std::sort(groups.begin(), groups.end());
  CHECK(groups == Grouping{{0, 2, 4, 6, 8}, {1, 3, 5, 7, 9}, {10}});
  // As many groups as experts, and no affinity at all: nobody is left out, no group is empty.
  for (const AffinityMatrix& affinity : {matrix(4, {{0, 1, 1}}), matrix(4, {})}) {
    for (const int count : {1, 2, 4}) {
      Grouping split = epsim::spectral_groups(affinity, count, Seed{2});
      CHECK(split.size() == static_cast<std::size_t>(count));
      std::size_t experts = 0;
      for (const Ints& group : split) {
        CHECK_FALSE(group.empty());
        experts += group.size();
      }
      CHECK(experts == 4);
    }
  }
}

TEST_CASE("GRACE Algorithm 2: too large groups keep their closest, the rest goes where it gains") {
  // 8 experts, 3 groups, sizes 1 .. 3. Of {0 1 2 3 4} the experts 3 and 4 have least affinity inside. 3 has 4 to expert
  // 7 and 1 to expert 5; 4 has none, so it goes to the smaller or lower group: {5 6} after 7's has grown.
  const AffinityMatrix affinity =
      matrix(8, {{0, 1, 9}, {0, 2, 9}, {1, 2, 9}, {0, 3, 1}, {0, 4, 1}, {5, 6, 50}, {3, 7, 4}, {3, 5, 1}});
  const Grouping clusters = {{0, 1, 2, 3, 4}, {5, 6}, {7}};
  CHECK(epsim::control_sizes(affinity, clusters, {1, 3}, GraceScore::kGain) == Grouping{{0, 1, 2}, {4, 5, 6}, {3, 7}});
  // The printed score is the group's total: the strong pair {5 6} wins whatever is added.
  CHECK(epsim::control_sizes(affinity, clusters, {1, 3}, GraceScore::kLiteralTotal) ==
        Grouping{{0, 1, 2}, {3, 5, 6}, {4, 7}});
}

TEST_CASE("GRACE Algorithm 2: too small groups take the expert that costs least") {
  // Expert 2 loses 1 (to 3) and gains 3 (to 4); expert 3 loses 1; 0 and 1 lose 5.
  const AffinityMatrix affinity = matrix(5, {{0, 1, 5}, {2, 3, 1}, {2, 4, 3}});
  CHECK(epsim::control_sizes(affinity, {{0, 1, 2, 3}, {4}}, {2, 4}, GraceScore::kGain) == Grouping{{0, 1, 3}, {2, 4}});
}

TEST_CASE("GRACE Eq. 1 and the knee") {
  const AffinityMatrix affinity = matrix(4, {{0, 1, 6}, {1, 2, 3}, {2, 3, 1}});
  CHECK(epsim::affinity_utilisation(affinity, {{0, 1}, {2, 3}}) == Approx(0.7));
  CHECK(epsim::affinity_utilisation(affinity, {{0, 1, 2}, {3}}) == Approx(0.9));
  CHECK(epsim::affinity_utilisation(matrix(2, {}), {{0}, {1}}) == 1.0);
  CHECK(epsim::size_deviation({{0, 1, 2}, {3}}) == Approx(1.0));  // 3 and 1 around 2
  // Normalised: utilisation 0, .75, 1, deviation 0, .25, 1: heights 0, .5, 0.
  const std::vector<epsim::RatioPoint> points = {{0.05, 0.5, 1.0}, {0.1, 0.8, 1.5}, {0.2, 0.9, 3.0}};
  CHECK(epsim::choose_ratio(points) == 0.1);
  const std::vector<epsim::RatioPoint> flat = {{0.05, 0.5, 1.0}, {0.1, 0.8, 1.0}};
  CHECK(epsim::choose_ratio(flat) == 0.05);
}

TEST_CASE("GRACE Eq. 2 and 3: copies of the hot set, and the loads that they predict") {
  // Groups 70 10 20 0, mean 25: rho = 2.8, so n = 2. Threshold 70 x 2/3 = 46.7: experts 0 and 1 (60). They go to GPU 3
  // (0) and GPU 1 (10); each instance gets 20.
  const std::vector<double> loads = {40, 20, 10, 10, 20, 0};
  const Grouping groups = {{0, 1, 2}, {3}, {4}, {5}};
  using enum epsim::GraceReplication;
  using enum epsim::Prediction;
  const GraceCopies dynamic = epsim::replicate_heaviest(loads, groups, kDynamic, kConserving);
  CHECK(dynamic.heaviest == 0);
  CHECK(dynamic.experts == Ints{0, 1});
  CHECK(dynamic.gpus == Ints{3, 1});
  CHECK(dynamic.predicted_load == std::vector<double>{30, 30, 20, 20});
  // As printed, W_p = 70 / 3: the total grows to 110.
  const GraceCopies literal = epsim::replicate_heaviest(loads, groups, kDynamic, kEq3Literal);
  CHECK(literal.predicted_load[0] == Approx(10 + 70.0 / 3));
  CHECK(std::accumulate(literal.predicted_load.begin(), literal.predicted_load.end(), 0.0) == Approx(110));
  // One copy: threshold 35, so expert 0 alone, on GPU 3.
  const GraceCopies fixed = epsim::replicate_heaviest(loads, groups, kFixed, kConserving);
  CHECK(fixed.experts == Ints{0});
  CHECK(fixed.gpus == Ints{3});
  CHECK(fixed.predicted_load == std::vector<double>{50, 10, 20, 20});
  CHECK(epsim::replicate_heaviest(loads, groups, kNone, kConserving).gpus.empty());
  // Eq. 2 gives at least one copy, at most one per other GPU, and none where there is no load or no other GPU.
  CHECK(epsim::replica_count(std::vector<double>{5, 5, 5}) == 1);
  CHECK(epsim::replica_count(std::vector<double>{90, 0, 0}) == 2);
  CHECK(epsim::replica_count(std::vector<double>{0, 0}) == 0);
  CHECK(epsim::replica_count(std::vector<double>{7}) == 0);
}

TEST_CASE("GRACE routing: weights inverse to the predicted load, nearest copies first with topology awareness") {
  const std::vector<double> weights = epsim::polling_weights(std::vector<double>{30, 10, 0, 15});
  CHECK(weights == std::vector<double>{1.0 / 30, 0.1, 1.0, 1.0 / 15});
  const ClusterShape shape{4, 2};
  const Ints holders = {0, 1, 3};
  const auto shares = [&](int gpu, WeightedRule rule) {
    return epsim::copy_shares(gpu, holders, weights, shape, rule);
  };
  // 1/30 : 1/10 : 1/15 = 1 : 3 : 2.
  const std::vector<double> all = shares(2, WeightedRule::kWeighted);
  CHECK(all[0] == Approx(1.0 / 6));
  CHECK(all[1] == Approx(0.5));
  CHECK(all[2] == Approx(1.0 / 3));
  CHECK(shares(1, WeightedRule::kTopologyAware) == std::vector<double>{0, 1, 0});  // own GPU
  CHECK(shares(2, WeightedRule::kTopologyAware) == std::vector<double>{0, 0, 1});  // own node
  const std::vector<double> remote = epsim::copy_shares(3, Ints{0, 1}, weights, shape, WeightedRule::kTopologyAware);
  CHECK(remote[0] == Approx(0.25));
  epsim::RandomStream random(Seed{1}, "choose copy");
  int counts[4] = {};
  for (int i = 0; i < 6000; ++i) {
    ++counts[test::choose_copy(2, holders, weights, shape, WeightedRule::kWeighted, random)];
  }
  CHECK(counts[2] == 0);
  CHECK(counts[1] == Approx(3000).epsilon(0.05));  // deviation of a binomial: 39
}

TEST_CASE("GRACE: sizes within bounds, more affinity inside groups than in order, sums of predicted load unchanged") {
  const LoadWindow load = topical_window(topical_tokens(3000, 0));
  const ClusterShape shape{8, 4};
  epsim::GraceExplanation why;
  const PlacementPlan plan = epsim::grace_plan({}, load, shape, &why);
  CHECK(why.ratio == 0.15);
  for (int l = 0; l < kGraceLayers; ++l) {
    const auto at = static_cast<std::size_t>(l);
    const std::span<const double> values = load.affinity()->layer(l);
    const AffinityMatrix affinity(kExperts, {values.begin(), values.end()});
    Grouping in_order(8);
    for (int e = 0; e < kExperts; ++e) {
      in_order[static_cast<std::size_t>(e / 8)].push_back(e);
    }
    CHECK(epsim::affinity_utilisation(affinity, why.groups[at]) >
          epsim::affinity_utilisation(affinity, in_order) + 0.1);
    for (int node = 0; node < 2; ++node) {
      int experts = 0;
      for (int g = 4 * node; g < 4 * node + 4; ++g) {
        experts += static_cast<int>(why.groups[at][static_cast<std::size_t>(g)].size());
      }
      const epsim::SizeBounds sizes = epsim::controlled_sizes(experts, 4, why.ratio);
      for (int g = 4 * node; g < 4 * node + 4; ++g) {
        CHECK(static_cast<int>(why.groups[at][static_cast<std::size_t>(g)].size()) >= sizes.min);
        CHECK(static_cast<int>(why.groups[at][static_cast<std::size_t>(g)].size()) <= sizes.max);
      }
    }
    const auto& predicted = why.copies[at].predicted_load;
    CHECK(std::accumulate(predicted.begin(), predicted.end(), 0.0) == Approx(load.total(l)));
  }
  epsim::GraceExplanation knee;
  GraceOptions by_knee;
  by_knee.ratio = std::nullopt;
  epsim::grace_plan(by_knee, load, shape, &knee);
  CHECK(knee.points.size() == 10);
  CHECK(knee.ratio >= 0.05);
  CHECK(knee.ratio <= 0.5);
}

TEST_CASE("GRACE: a bound on a GPU's experts holds on every level") {
  const LoadWindow load = topical_window(topical_tokens(2000, 4));
  GraceOptions options;
  options.ratio = 0.5;
  epsim::GraceExplanation free, bounded;
  epsim::grace_plan(options, load, ClusterShape{8, 4}, &free);
  options.max_experts_per_gpu = 8;  // 64 experts on 8 GPUs: no slack at all
  epsim::grace_plan(options, load, ClusterShape{8, 4}, &bounded);
  std::size_t largest = 0;
  for (std::size_t l = 0; l < kGraceLayers; ++l) {
    for (std::size_t g = 0; g < 8; ++g) {
      largest = std::max(largest, free.groups[l][g].size());
      CHECK(bounded.groups[l][g].size() == 8);
    }
  }
  CHECK(largest > 8);
  options.max_experts_per_gpu = 7;
  CHECK_THROWS_AS(epsim::grace_plan(options, load, ClusterShape{8, 4}), epsim::InputError);
}

TEST_CASE("GRACE Figure 5: the signs of its component study") {
  // Two nodes of two GPUs, planned on some tokens and run on others.
  const LoadWindow load = topical_window(topical_tokens(4000, 1));
  const std::vector<std::uint8_t> tokens = topical_tokens(4000, 2);
  const ClusterShape shape{4, 2};
  const PlacementPlan vanilla = epsim::test::policy("contiguous")->plan(load, shape);
  const GraceOutcome base = Router(vanilla, shape).route(tokens, WeightedRule::kWeighted, {});

  GraceOptions options;
  options.replication = epsim::GraceReplication::kNone;
  const GraceOutcome grouped =
      Router(epsim::grace_plan(options, load, shape), shape).route(tokens, WeightedRule::kWeighted, {});
  CHECK(grouped.cross_node < base.cross_node * 0.9);
  CHECK(grouped.cross_gpu < base.cross_gpu * 0.9);
  CHECK(grouped.load_deviation > base.load_deviation);

  options.replication = epsim::GraceReplication::kDynamic;
  epsim::GraceExplanation why;
  const PlacementPlan plan = epsim::grace_plan(options, load, shape, &why);
  std::vector<std::vector<double>> weights;
  for (const GraceCopies& copies : why.copies) {
    weights.push_back(epsim::polling_weights(copies.predicted_load));
  }
  const GraceOutcome weighted = Router(plan, shape).route(tokens, WeightedRule::kWeighted, weights);
  CHECK(weighted.load_deviation < grouped.load_deviation * 0.9);

  const GraceOutcome nearest = Router(plan, shape).route(tokens, WeightedRule::kTopologyAware, weights);
  CHECK(nearest.cross_node < weighted.cross_node);
  CHECK(nearest.cross_node + nearest.cross_gpu < weighted.cross_node + weighted.cross_gpu);
}

TEST_CASE("GRACE: what it needs and what it refuses") {
  using epsim::test::policy;
  const LoadWindow no_tokens = epsim::test::window({{1, 2, 3, 4}});
  try {
    policy("grace")->plan(no_tokens, {2, 1});
    FAIL("accepted");
  } catch (const epsim::InputError& error) {
    CHECK(std::string(error.what()).find("routing trace") != std::string::npos);
  }
  const LoadWindow load = topical_window(topical_tokens(100, 3));
  CHECK_THROWS_AS(policy("grace")->plan(load, {128, 8}), epsim::InputError);
  CHECK_THROWS_AS(policy("grace")->plan(load, {6, 4}), epsim::InputError);
  CHECK_THROWS_AS(policy("grace", "{ratio: 2}"), epsim::InputError);
  CHECK_THROWS_AS(policy("grace", "{ratio: wide}"), epsim::InputError);
  CHECK_NOTHROW(policy("grace", "{ratio: knee, replication: fixed, prediction: eq3_literal, score: literal_total}")
                    ->plan(load, {4, 2}));
}
