// Expert ids of single tokens drawn from a routing model.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/traces/model_support.h"
#include "traces/routing_model/alias_table.h"
#include "traces/routing_model/token_sampler.h"
#include "traces/routing_model/trace_profile.h"

namespace epsim {
namespace {

TEST_CASE("an alias table draws in proportion to its weights, and never a zero") {
  AliasTable table;
  const std::vector<float> weights = {1, 0, 3, 4, 0, 0.5F, 7.5F};
  table.build(weights);
  std::vector<int> counts(weights.size(), 0);
  RandomStream random(Seed{1}, "test");
  constexpr int kDraws = 160000;
  for (int i = 0; i < kDraws; ++i) {
    ++counts[table.draw(random.bits())];
  }
  CHECK(counts[1] == 0);
  CHECK(counts[4] == 0);
  // Weights sum to 16: weight w is drawn w * 10000 times, give or take 3 * sqrt(10000 w).
  for (const std::size_t i : {0U, 2U, 3U, 5U, 6U}) {
    CHECK(counts[i] == doctest::Approx(10000.0 * static_cast<double>(weights[i])).epsilon(0.05));
  }
}

TEST_CASE("choices have no duplicates, and experts their popularity") {
  const RoutingLaw law(test::small_routing_model(2, 24, 4, 0.0));
  test::KeptTrace trace;
  generate_tokens(law, {0, 20000}, Seed{1}, trace);
  REQUIRE(trace.experts.size() == 20000U * 2 * 4);
  std::vector<double> counts(24, 0.0);
  for (std::size_t at = 0; at < trace.experts.size(); at += 4) {
    const std::set<std::uint16_t> choice(&trace.experts[at], &trace.experts[at] + 4);
    REQUIRE(choice.size() == 4);
    for (const std::uint16_t e : choice) {
      counts[e] += at / 4 % 2 == 0 ? 1 : 0;
    }
  }
  // 80000 assignments; the coldest expert has 1.8 % of them, 1440 +- 38. The race meets chances within about 2 %.
  for (std::size_t e = 0; e < 24; ++e) {
    CHECK(counts[e] / 80000 == doctest::Approx(law.popularity(0)[e]).epsilon(0.1));
  }
}

TEST_CASE("a sequence depends on the seed and its number alone") {
  const RoutingLaw law(test::small_routing_model(2, 24, 4, 1.0));
  TokenSampler a(law, Seed{1}), b(law, Seed{1});
  std::vector<std::uint16_t> first(100 * 8), again(100 * 8), shorter(70 * 8);
  a.sample(5, 100, first);
  b.sample(4, 100, again);
  CHECK(first != again);
  b.sample(5, 100, again);
  CHECK(first == again);
  b.sample(5, 70, shorter);
  CHECK(std::equal(shorter.begin(), shorter.end(), first.begin()));
  CHECK(a.length(3) == b.length(3));
}

TEST_CASE("group-limited routing: every token stays within its groups, and experts keep their popularity") {
  RoutingModel m = test::small_routing_model(1, 32, 4, 0.0);
  m.expert_groups = 8;
  m.top_groups = 2;
  for (const double repeat : {0.0, 0.3}) {
    CAPTURE(repeat);
    m.repeat = repeat;
    const RoutingLaw law(m);
    test::KeptTrace trace;
    generate_tokens(law, {0, 30000}, Seed{2}, trace);
    std::vector<double> counts(32, 0.0);
    for (std::size_t at = 0; at < trace.experts.size(); at += 4) {
      std::set<int> groups, ids;
      for (std::size_t k = 0; k < 4; ++k) {
        groups.insert(trace.experts[at + k] / 4);
        ids.insert(trace.experts[at + k]);
        counts[trace.experts[at + k]] += 1;
      }
      REQUIRE(groups.size() <= 2);
      REQUIRE(ids.size() == 4);
    }
    // Two groups of four experts hold exactly twice top-k: each is taken half the time on average, and the race is
    // rough there: within 15 %.
    for (std::size_t e = 0; e < 32; ++e) {
      CHECK(counts[e] / (4.0 * 30000) == doctest::Approx(law.popularity(0)[e]).epsilon(0.15));
    }
  }
}

TEST_CASE("group-limited routing: pairs of experts come as often as the race among a group's experts says") {
  // Two groups of four, of which one is open, with chance 1/2 each; a token takes two. In an open group an expert is
  // wanted with the chances below, so it races at -ln(1 - chance): 3.00, 0.69, 0.43, 0.22 and 2.30, 1.90, 0.16, 0.11.
  const double wanted[2][4] = {{0.95, 0.5, 0.35, 0.2}, {0.9, 0.85, 0.15, 0.1}};
  RoutingModel m = test::small_routing_model(1, 8, 2, 0.0);
  m.expert_groups = 2;
  m.top_groups = 1;
  for (std::size_t e = 0; e < 8; ++e) {
    m.layers[0].shares[e] = wanted[e / 4][e % 4] / 4;  // two choices in either group
  }
  constexpr std::int64_t kTokens = 80000;
  test::KeptTrace trace;
  generate_tokens(RoutingLaw(m), {0, kTokens}, Seed{5}, trace);
  double pairs[8][8] = {};
  for (std::size_t at = 0; at < trace.experts.size(); at += 2) {
    pairs[trace.experts[at]][trace.experts[at + 1]] += 1;
  }
  for (std::size_t g = 0; g < 2; ++g) {
    double rate[4], sum = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      sum += rate[i] = -std::log(1 - wanted[g][i]);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 4; ++j) {
        // First i, then j among the others. Within 4 deviations of a binomial.
        const double chance = i == j ? 0.0 : 0.5 * rate[i] / sum * rate[j] / (sum - rate[i]);
        const double mean = chance * kTokens;
        CAPTURE(g);
        CAPTURE(i);
        CAPTURE(j);
        CHECK(std::abs(pairs[g * 4 + i][g * 4 + j] - mean) <= 4 * std::sqrt(mean * (1 - chance)));
      }
    }
  }
}

TEST_CASE("repeats: a token keeps experts of the one before it as often as stated") {
  RoutingModel m = test::small_routing_model(1, 64, 4, 0.0);
  const auto overlap = [&](double repeat) {
    m.repeat = repeat;
    TraceProfiler profiler;
    generate_tokens(RoutingLaw(m), {0, 40000}, Seed{3}, profiler);
    return profiler.finish();
  };
  const TraceProfile none = overlap(0), half = overlap(0.5);
  // Without repeats two tokens share o experts by chance; with them 4 r + (what chance adds to the other slots), which
  // is at least 4 r and at most 4 r + o.
  CHECK(*half.overlap_1 > 2.0);
  CHECK(*half.overlap_1 < 2.0 + *none.overlap_1);
  CHECK(*none.overlap_1 == doctest::Approx(*none.overlap_8).epsilon(0.05));
  // 8 tokens on, 0.5^8 of the repeats are left.
  CHECK(*half.overlap_8 == doctest::Approx(*none.overlap_8).epsilon(0.1));
}

TEST_CASE("topics make consecutive tokens alike, and affinity within and between layers") {
  RoutingModel m = test::small_routing_model(3, 32, 4, 1.0);
  const auto profile = [&](double sigma) {
    for (LayerRouting& layer : m.layers) {
      layer.sigma = sigma;
    }
    TraceProfiler profiler;
    generate_tokens(RoutingLaw(m), {0, 40000}, Seed{3}, profiler);
    return profiler.finish();
  };
  const TraceProfile plain = profile(0), topical = profile(1);
  CHECK(topical.batches[0].mean > 1.5 * plain.batches[0].mean);
  CHECK(*topical.affinity > 2 * *plain.affinity);
  CHECK(*topical.next_layer > 2 * *plain.next_layer);
  CHECK(*topical.overlap_8 > 1.3 * *plain.overlap_8);
  // The whole stays what it was: 400 sequences leave a hot expert uncertain by about 1.3 / sqrt(400) = 7 %.
  CHECK(topical.layers[0].max_over_mean == doctest::Approx(plain.layers[0].max_over_mean).epsilon(0.2));
}

TEST_CASE("kinds of tokens: affinity within and between layers, at the same popularity") {
  RoutingModel m = test::small_routing_model(3, 32, 4, 0.0);
  const auto profile = [&](double share) {
    m.kinds = 4;
    m.kind_share = share;
    TraceProfiler profiler;
    generate_tokens(RoutingLaw(m), {0, 40000}, Seed{3}, profiler);
    return profiler.finish();
  };
  const TraceProfile plain = profile(0), half = profile(0.5), most = profile(0.95);
  CHECK(*most.affinity > 0.15);
  CHECK(*most.next_layer > 0.15);
  CHECK(*half.affinity < *most.affinity);
  CHECK(*plain.affinity < 0.5 * *half.affinity);
  // Tokens of a kind crowd on few experts, of which each takes one choice at most: popularity gets a little flatter.
  for (std::size_t e = 0; e < 32; ++e) {
    CHECK(most.counts[0][e] == doctest::Approx(plain.counts[0][e]).epsilon(0.35));
  }
  CHECK(most.layers[0].max_over_mean == doctest::Approx(plain.layers[0].max_over_mean).epsilon(0.2));
}

}  // namespace
}  // namespace epsim
