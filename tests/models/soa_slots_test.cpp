#include "models/network/soa_slots.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "models/network/miss_probability.h"
#include "traces/expert_loads/window_load_source.h"

namespace epsim {
namespace {

// Three GPUs with 3, 1 and 2 slots of four experts; expert 0 has copies on all three.
LayerPlacement uneven_layer() {
  LayerPlacement layer;
  layer.expert = {0, 1, 2, 0, 0, 3};
  layer.first_slot = {0, 3, 4, 6};
  layer.copies = {3, 1, 1, 1};
  layer.share = {1.0F / 3, 1, 1, 1.0F / 3, 1.0F / 3, 1};
  return layer;
}

TEST_CASE("the chance of a Poisson count above zero") {
  CHECK(at_least_one(0) == 0);
  for (const double mean : {1e-4, 0.01, 0.3, 1.0, 2.7, 9.9, 15.9}) {
    CHECK(std::abs(at_least_one(mean) + std::expm1(-mean)) < 3e-7);
  }
  CHECK(at_least_one(16) == 1);
  CHECK(at_least_one(1e9) == 1);
}

TEST_CASE("of drawn counts, as many experts have a row as chance says") {
  // 256 experts alike, top-8: after T tokens an expert has a row with chance 1 - (1 - 8 / 256)^T.
  LoadWindow even(1, 256);
  std::fill(even.layer(0).begin(), even.layer(0).end(), 1.0);
  const WindowLoadSource source(even, 8, 1.0, Seed{3});
  StepLoads loads;
  for (const std::int64_t tokens : {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 256, 1024}) {
    CAPTURE(tokens);
    double drawn = 0, as_chances = 0;
    constexpr int kSteps = 200;
    for (int step = 0; step < kSteps; ++step) {
      source.draw(step, std::array{tokens}, loads);
      for (const float pi : loads.row(0, 0)) {
        drawn += at_least_one_drawn(static_cast<double>(pi) * static_cast<double>(tokens), 1.0) / kSteps;
        as_chances += at_least_one(static_cast<double>(pi) * static_cast<double>(tokens)) / kSteps;
      }
    }
    CHECK(loads.counted);
    const double expected = 256 * (1 - std::pow(1 - 8.0 / 256, static_cast<double>(tokens)));
    CHECK(drawn == doctest::Approx(expected).epsilon(0.01));
    if (tokens == 32) {
      CHECK(as_chances < 0.83 * expected);  // chance twice
    }
  }
}

TEST_CASE("rows that were drawn with little variance are chances") {
  // 256 experts alike, top-8, 32 tokens: an expert has one row on average, and one or more with chance 1 - (1 - 8 / 256)^32.
  LoadWindow even(1, 256);
  std::fill(even.layer(0).begin(), even.layer(0).end(), 1.0);
  const double expected = 256 * (1 - std::pow(1 - 8.0 / 256, 32.0));
  for (const auto& [spread, counted] : {std::pair{0.01, false}, {0.3, false}, {1.0, true}}) {
    const double overdispersion = spread;
    CAPTURE(overdispersion);
    const WindowLoadSource source(even, 8, overdispersion, Seed{3});
    StepLoads loads;
    double as_flagged = 0, otherwise = 0;
    constexpr int kSteps = 200;
    for (int step = 0; step < kSteps; ++step) {
      source.draw(step, std::array{std::int64_t{32}}, loads);
      for (const float pi : loads.row(0, 0)) {
        const double count = static_cast<double>(pi) * 32;
        as_flagged += (counted ? at_least_one_drawn(count, 1.0) : at_least_one(count)) / kSteps;
        otherwise += (counted ? at_least_one(count) : at_least_one_drawn(count, 1.0)) / kSteps;
      }
    }
    CHECK(loads.counted == counted);
    CHECK(as_flagged == doctest::Approx(expected).epsilon(0.12));
    CHECK(std::abs(as_flagged - expected) < std::abs(otherwise - expected));
  }
}

TEST_CASE("loads that are filled anew are chances until said otherwise") {
  StepLoads loads;
  loads.counted = true;
  loads.resize(1, 1, 4);
  CHECK_FALSE(loads.counted);
}

TEST_CASE("slots beside each other give what slot by slot gives") {
  const LayerPlacement layer = uneven_layer();
  const SoaSlots columns(layer, common_lanes({.gpus = 3, .gpus_per_node = 3}));
  const std::vector<float> pi = {0.9F, 0.5F, 0.25F, 0.35F};  // sums to 2: top-2
  const double weight = pair_weight(pi);
  SlotValues chances, assignments;
  std::vector<double> reach, rows, executed, touched;
  columns.gather(pi, chances);
  columns.reach(chances, weight, reach);
  columns.sum_rows(chances, rows);
  const std::vector<double> loads = {30, 4, 0, 8};
  columns.gather(loads, assignments);
  const auto counted = SoaSlots::Counted::kNo;
  columns.execute(assignments, 1.0, counted, executed, touched);
  for (std::size_t g = 0; g < 3; ++g) {
    MissProbability missed;
    double sum = 0, here = 0, some = 0;
    for (auto s = static_cast<std::size_t>(layer.first_slot[g]); s < static_cast<std::size_t>(layer.first_slot[g + 1]);
         ++s) {
      const auto e = static_cast<std::size_t>(layer.expert[s]);
      const double share = layer.share[s];
      missed.add(pi[e], share);
      sum += pi[e] * share;
      here += loads[e] * share;
      some += at_least_one(loads[e] * share);
    }
    CHECK(reach[g] == 1.0 - missed.value(weight));
    CHECK(rows[g] == doctest::Approx(sum).epsilon(1e-12));
    CHECK(executed[g] == here);
    CHECK(touched[g] == doctest::Approx(some).epsilon(1e-12));
  }
  // Of drawn rows a copy gets each with its share: at least one of n with chance 1 - (1 - share)^n.
  columns.execute(assignments, 1.0, SoaSlots::Counted::kTogether, executed, touched);
  for (std::size_t g = 0; g < 3; ++g) {
    double some = 0;
    for (auto s = static_cast<std::size_t>(layer.first_slot[g]); s < static_cast<std::size_t>(layer.first_slot[g + 1]);
         ++s) {
      const double share = layer.share[s], n = loads[static_cast<std::size_t>(layer.expert[s])];
      some += std::min(n * share, 1 - std::pow(1 - share, n));
    }
    CHECK(touched[g] == doctest::Approx(some).epsilon(1e-6));
  }
}

TEST_CASE("half the variance of a mix, inverted, for any number of experts") {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> chance(0, 1);
  for (const std::size_t experts : {1U, 7U, 8U, 9U, 60U, 256U, 384U}) {
    std::vector<float> pi(experts);
    double variance = 0;
    for (float& p : pi) {
      p = chance(random);
      variance += static_cast<double>(p) * (1.0 - static_cast<double>(p));
    }
    CHECK(pair_weight(pi) == doctest::Approx(0.5 / variance).epsilon(1e-12));
  }
  CHECK(pair_weight(std::vector<float>{1, 0, 1}) == 0);
}

}  // namespace
}  // namespace epsim
