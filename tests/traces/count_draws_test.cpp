// Counts of few tokens, against the binomial distribution.
#include "traces/routing_model/count_draws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/core/fingerprint.h"
#include "traces/routing_model/routing_law.h"

namespace epsim {
namespace {

constexpr int kChosen = 8, kOfRow = 252;
constexpr std::size_t kPadded = 256;

// Chances that fall by the rank's power, summing to top-k, at most 1.
std::vector<float> skewed(double power) {
  std::vector<float> row(kPadded, 0.0F);
  for (int e = 0; e < kOfRow; ++e) {
    row[(e * 37) % kOfRow] = static_cast<float>(std::pow(e + 1.0, -power));
  }
  scale_capped(std::span(row).first(kOfRow), kChosen);
  return row;
}

struct Moments {
  std::vector<double> none, mean, variance;  // [expert]
};

Moments moments_of(const std::vector<float>& chances, int trials, int rows) {
  Moments out{std::vector<double>(kPadded), std::vector<double>(kPadded), std::vector<double>(kPadded)};
  std::vector<float> counts(kPadded);
  for (int r = 0; r < rows; ++r) {
    draw_choices(chances, trials, kChosen, 1000U + static_cast<std::uint64_t>(r), counts);
    CHECK(std::accumulate(counts.begin(), counts.end(), 0.0F) == static_cast<float>(trials * kChosen));
    for (std::size_t e = 0; e < kPadded; ++e) {
      const auto n = static_cast<double>(counts[e]);
      if (n < 0 || n > trials || n != std::floor(n)) {
        FAIL_CHECK("expert ", e, " has ", n, " rows of ", trials, " tokens");
      }
      out.none[e] += (n == 0 ? 1.0 : 0.0) / rows;
      out.mean[e] += n / rows;
      out.variance[e] += n * n / rows;
    }
  }
  for (std::size_t e = 0; e < kPadded; ++e) {
    out.variance[e] -= out.mean[e] * out.mean[e];
  }
  return out;
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

TEST_CASE("counts of few tokens are as binomial ones: mean, variance and experts without any") {
  for (const double power : {0.0, 0.5, 0.8}) {
    const std::vector<float> chances = skewed(power);
    for (const int trials : {1, 2, 5, 16, 48, 128, 500}) {
      CAPTURE(power);
      CAPTURE(trials);
      const Moments drawn = moments_of(chances, trials, 1000);
      double touched = 0, variance = 0;
      for (std::size_t e = 0; e < kPadded; ++e) {
        const auto p = static_cast<double>(chances[e]);
        touched += 1 - std::pow(1 - p, trials);
        variance += trials * p * (1 - p);
        // Five standard errors of 1,000 rows, and what fixing the sum moves a mean by: most with one token.
        const double mean = trials * p, error = 5 * std::sqrt(trials * p * (1 - p) / 1000);
        CHECK(std::abs(drawn.mean[e] - mean) <= error + 0.08 * mean + 0.002);
      }
      CHECK(static_cast<double>(kPadded) - sum(drawn.none) == doctest::Approx(touched).epsilon(0.01));
      // What is fixed by the sum of a row is missing: one part in 252, and more where few experts take much.
      CHECK(sum(drawn.variance) == doctest::Approx(variance).epsilon(0.08));
    }
  }
}

TEST_CASE("of few experts, too, as many have rows as chance says") {
  // 8 experts, top-2, drawn token by token: an expert has none of T tokens with chance (1 - p)^T.
  const std::vector<float> chances{0.7F, 0.4F, 0.3F, 0.2F, 0.15F, 0.1F, 0.1F, 0.05F};
  std::vector<float> counts(8);
  for (const int trials : {1, 2, 5, 20, 60}) {
    CAPTURE(trials);
    double touched = 0, expected = 0, square = 0;
    constexpr int kRows = 4000;
    for (int r = 0; r < kRows; ++r) {
      draw_choices(chances, trials, 2, 77U * static_cast<std::uint64_t>(r), counts);
      touched += static_cast<double>(std::ranges::count_if(counts, [](float n) { return n > 0; })) / kRows;
      square += static_cast<double>(counts[1] * counts[1]) / kRows;
    }
    for (const float p : chances) {
      expected += 1 - std::pow(1 - static_cast<double>(p), trials);
    }
    CHECK(touched == doctest::Approx(expected).epsilon(0.01));
    CHECK(square - 0.16 * trials * trials == doctest::Approx(0.24 * trials).epsilon(0.12));  // variance T p (1 - p)
  }
}

TEST_CASE("no count lies where the binomial distribution has nothing") {
  // 160 experts alike, top-6, 64 tokens: a mean of 2.4, and more than 18 of 64 with a chance of 4e-12.
  std::vector<float> chances(160, 6.0F / 160), counts(160);
  float most = 0;
  for (int r = 0; r < 20000; ++r) {
    draw_choices(chances, 64, 6, static_cast<std::uint64_t>(r), counts);
    most = std::max(most, *std::ranges::max_element(counts));
  }
  CHECK(most <= 18);
  CHECK(most >= 9);  // of 3.2 million counts, chance 1e-3 each
}

TEST_CASE("a row does not depend on those before it, and padding is never chosen") {
  const std::vector<float> chances = skewed(0.5);
  std::vector<float> once(kPadded), again(kPadded);
  draw_choices(chances, 16, kChosen, 7, once);
  draw_choices(chances, 16, kChosen, 8, again);
  CHECK(once != again);
  draw_choices(chances, 16, kChosen, 7, again);
  CHECK(once == again);
  CHECK(std::all_of(once.begin() + kOfRow, once.end(), [](float n) { return n == 0; }));
}

TEST_CASE("every token of a row in which only top-k experts can be chosen chooses them all") {
  std::vector<float> chances(kPadded, 0.0F), counts(kPadded);
  std::fill_n(chances.begin() + 40, kChosen, 1.0F);
  for (const int trials : {1, 3, 60}) {
    draw_choices(chances, trials, kChosen, 5, counts);
    CHECK(std::all_of(counts.begin() + 40, counts.begin() + 48,
                      [&](float n) { return n == static_cast<float>(trials); }));
  }
}

TEST_CASE("rows are counted where they are few, and by fewer tokens the more their counts vary") {
  CHECK(count_trials(32, 1, 8, 256) == 32);
  CHECK(count_trials(32, 4, 8, 256) == 8);  // counts of 8 tokens, four times each: 4 times the variance
  CHECK(count_trials(1, 4, 8, 256) == 1);
  CHECK(count_trials(511, 1, 8, 256) == 511);
  CHECK(count_trials(512, 1, 8, 256) == 0);   // 16 rows an expert
  CHECK(count_trials(32, 0.3, 8, 256) == 0);  // chances
  CHECK(count_trials(0, 1, 8, 256) == 0);
}

// Mean over the busiest of `gpus` GPUs of the tokens that expert e brings GPU gpu_of(e).
template <class GpuOf>
double balancedness(int experts, int top_k, int tokens, int gpus, GpuOf gpu_of) {
  constexpr int kRows = 4000;
  std::vector<float> chances(static_cast<std::size_t>(experts),
                             static_cast<float>(top_k) / static_cast<float>(experts));
  chances.resize((chances.size() + kCountLanes - 1) / kCountLanes * kCountLanes);
  std::vector<float> counts(chances.size());
  double out = 0;
  for (int r = 0; r < kRows; ++r) {
    draw_choices(chances, tokens, top_k, Fingerprint::mix(static_cast<std::uint64_t>(r)), counts);
    std::vector<double> loads(static_cast<std::size_t>(gpus));
    for (int e = 0; e < experts; ++e) {
      loads[static_cast<std::size_t>(gpu_of(e))] += static_cast<double>(counts[static_cast<std::size_t>(e)]);
    }
    out += sum(loads) / gpus / *std::max_element(loads.begin(), loads.end()) / kRows;
  }
  return out;
}

// The figures are of 26,000 to 100,000 rows by numpy: each token has the top_k experts with the least of random numbers.
TEST_CASE("with equal chances no placement is luckier than another") {
  struct Case {
    int experts, top_k, tokens, gpus;
    double expected;
  };
  for (const Case& c : {Case{256, 8, 1, 8, 0.4148}, Case{256, 8, 4, 8, 0.5869}, Case{128, 8, 8, 4, 0.8045},
                        Case{8, 2, 16, 4, 0.7559}}) {
    const int each = c.experts / c.gpus;
    CHECK(balancedness(c.experts, c.top_k, c.tokens, c.gpus, [&](int e) { return e / each; }) ==
          doctest::Approx(c.expected).epsilon(0.015));
    CHECK(balancedness(c.experts, c.top_k, c.tokens, c.gpus, [&](int e) { return e % c.gpus; }) ==
          doctest::Approx(c.expected).epsilon(0.015));
  }
}

}  // namespace
}  // namespace epsim
