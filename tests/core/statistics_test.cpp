#include "sim/core/statistics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "sim/core/rng.h"

namespace epsim {
namespace {

TEST_CASE("running mean, variance and range") {
  RunningStats stats;
  for (const double x : {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0}) {
    stats.add(x);
  }
  CHECK(stats.count() == 8);
  CHECK(stats.mean() == doctest::Approx(5.0));           // 40 / 8
  CHECK(stats.variance() == doctest::Approx(32.0 / 7));  // 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32, over n - 1
  CHECK(stats.min() == 2.0);
  CHECK(stats.max() == 9.0);
  CHECK(RunningStats().variance() == 0.0);
}

TEST_CASE("the running variance survives a large offset") {
  RunningStats stats;
  for (const double x : {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}) {
    stats.add(x);
  }
  CHECK(stats.variance() == doctest::Approx(30.0));  // 4, 7, 13, 16: mean 10, (36 + 9 + 9 + 36) / 3
}

TEST_CASE("a quantile is the smallest sample with at least that share at or below it") {
  std::vector<double> hundred(100);
  std::iota(hundred.begin(), hundred.end(), 1.0);
  std::reverse(hundred.begin(), hundred.end());
  const Summary s = summarize(hundred);
  CHECK(s.count == 100);
  CHECK(s.mean == doctest::Approx(50.5));
  CHECK(s.p50 == 50.0);
  CHECK(s.p90 == 90.0);
  CHECK(s.p99 == 99.0);
  CHECK(s.max == 100.0);

  const Summary five = summarize({5, 1, 4, 2, 3});  // ranks ceil(2.5), ceil(4.5), ceil(4.95) = 3, 5, 5
  CHECK(five.p50 == 3.0);
  CHECK(five.p90 == 5.0);
  CHECK(five.p99 == 5.0);
  const Summary two = summarize({8, 6});  // rank ceil(1.0) = 1
  CHECK(two.p50 == 6.0);
  CHECK(two.p90 == 8.0);
  const Summary one = summarize({3});
  CHECK(one.p50 == 3.0);
  CHECK(one.p99 == 3.0);
  CHECK(summarize({}).count == 0);
  CHECK(summarize({}).max == 0.0);
}

TEST_CASE("the rule holds for every number of samples") {
  for (int n = 1; n <= 1000; ++n) {
    std::vector<double> samples(static_cast<std::size_t>(n));
    std::iota(samples.begin(), samples.end(), 1.0);
    const Summary s = summarize(samples);
    REQUIRE(s.p50 == (n + 1) / 2);          // ceil(n / 2)
    REQUIRE(s.p90 == (9 * n + 9) / 10);     // ceil(9 n / 10)
    REQUIRE(s.p99 == (99 * n + 99) / 100);  // ceil(99 n / 100)
  }
}

TEST_CASE("samples that come in parts have the summary of sorted ones, bit by bit") {
  RandomStream random(Seed{11}, "parts");
  for (int round = 0; round < 60; ++round) {
    const std::uint64_t n = 1 + random.below(round < 30 ? 40 : 4000);
    const bool ties = round % 3 == 0, negative = round % 2 == 0;
    std::vector<double> samples;
    for (std::uint64_t i = 0; i < n; ++i) {
      const double x = ties ? static_cast<double>(random.below(7)) : std::exp(40 * random.uniform() - 20);
      samples.push_back(negative ? 3 - x : x);
    }
    const std::size_t most = 1 + random.below(100);
    const Summary a = summarize(samples),
                  b = summarize_parts([&](const auto&take) {
                    take({});
                    for (std::size_t first = 0; first < samples.size(); first += most) {
                      take(std::span(samples).subspan(first, std::min(most, samples.size() - first)));
                    }
                  });
    REQUIRE(a.count == b.count);
    REQUIRE(a.mean == b.mean);
    REQUIRE(a.p50 == b.p50);
    REQUIRE(a.p90 == b.p90);
    REQUIRE(a.p95 == b.p95);
    REQUIRE(a.p99 == b.p99);
    REQUIRE(a.max == b.max);
  }
  CHECK(summarize_parts([](const auto&) {}).count == 0);
}

TEST_CASE("weighted samples are what they stand for") {
  RandomStream random(Seed{4}, "weighted");
  for (int round = 0; round < 50; ++round) {
    WeightedSamples weighted;
    std::vector<double> expanded;
    for (std::uint64_t i = 0, n = 1 + random.below(40); i < n; ++i) {
      const double value = static_cast<double>(random.below(20));
      const auto weight = static_cast<std::int64_t>(random.below(30));
      weighted.add(value, weight);
      expanded.insert(expanded.end(), static_cast<std::size_t>(weight), value);
    }
    const Summary a = weighted.summary(), b = summarize(expanded);
    REQUIRE(a.count == b.count);
    REQUIRE(a.mean == doctest::Approx(b.mean).epsilon(1e-12));
    REQUIRE(a.p50 == b.p50);
    REQUIRE(a.p90 == b.p90);
    REQUIRE(a.p99 == b.p99);
    REQUIRE(a.max == b.max);
    REQUIRE(weighted.summary().mean == a.mean);  // asked again, to the last bit
  }
  WeightedSamples nothing;
  nothing.add(5, 0);
  CHECK(nothing.size() == 0);
  CHECK(nothing.summary().count == 0);
}

TEST_CASE("Student's t: known quantiles, falling to the normal one") {
  CHECK(student_t_95(1) == doctest::Approx(12.706).epsilon(1e-4));  // tan(0.475 pi) = 12.7062
  CHECK(student_t_95(2) == doctest::Approx(0.95 * std::sqrt(2.0 / (1 - 0.95 * 0.95))).epsilon(1e-4));  // 4.3027
  CHECK(student_t_95(10) == doctest::Approx(2.228).epsilon(1e-4));
  // Beyond the table: R's qt(0.975, 31), (0.975, 60), (0.975, 1000)
  CHECK(student_t_95(31) == doctest::Approx(2.0395).epsilon(2e-3));
  CHECK(student_t_95(60) == doctest::Approx(2.0003).epsilon(2e-3));
  CHECK(student_t_95(1000) == doctest::Approx(1.9623).epsilon(2e-3));
  for (int n = 1; n < 200; ++n) {
    REQUIRE(student_t_95(n + 1) < student_t_95(n));
  }
  CHECK(std::isinf(student_t_95(0)));
}

TEST_CASE("batch means: the half width by hand") {
  // Two batches of three with means 2 and 5: variance 4.5, over 2 batches 2.25, root 1.5, times t(1) = 12.706.
  const std::vector<double> samples = {1, 2, 3, 4, 5, 6};
  CHECK(batch_means_half_width(samples, 2) == doctest::Approx(12.706 * 1.5));
  const std::vector<double> remainder = {1, 2, 3, 4, 5, 6, 1000};  // what fills no batch is left out
  CHECK(batch_means_half_width(remainder, 2) == doctest::Approx(12.706 * 1.5));
  CHECK(std::isinf(batch_means_half_width(samples, 1)));
  CHECK(std::isinf(batch_means_half_width(samples, 7)));
  CHECK(std::isinf(batch_means_half_width({}, 20)));
  const std::vector<double> constant(100, 3.0);
  CHECK(batch_means_half_width(constant) == 0.0);
}

TEST_CASE("batch means cover the true mean of correlated samples about as often as they say") {
  // x' = 0.8 x + noise around 0, 400 samples a run. 95 % of 400 runs is 380; five deviations of sqrt(400 * 0.05 * 0.95)
  // are 22. The interval from single samples, blind to the correlation, covers in about half of the runs.
  int covered = 0, covered_blindly = 0;
  for (std::uint64_t run = 0; run < 400; ++run) {
    RandomStream random(Seed{31}, "batch-means", run);
    std::vector<double> samples(400);
    double x = random.normal() / 0.6;  // from the steady state: deviation 1 / sqrt(1 - 0.64)
    RunningStats all;
    for (double& sample : samples) {
      x = 0.8 * x + random.normal();
      sample = x;
      all.add(x);
    }
    covered += std::fabs(all.mean()) < batch_means_half_width(samples, 10) ? 1 : 0;
    covered_blindly += std::fabs(all.mean()) < batch_means_half_width(samples, 400) ? 1 : 0;
  }
  CHECK(covered > 380 - 22);
  CHECK(covered_blindly < 280);
}

TEST_CASE("trend: the line over the waves, by hand") {
  // Six values, two waves. The line is (-5, -3, -1, 1, 3, 5) / sqrt(70); the waves are cos(pi (2 i + 1) k / 6) / sqrt(3):
  // (sqrt(3) / 2, 0, -sqrt(3) / 2, -sqrt(3) / 2, 0, sqrt(3) / 2) and (1/2, -1, 1/2, 1/2, -1, 1/2), over sqrt(3).
  const std::vector<double> last = {0, 0, 0, 0, 0, 1};
  // Line 5 / sqrt(70); waves 1 / 2 and 1 / (2 sqrt(3)): mean square (1 / 4 + 1 / 12) / 2 = 1 / 6.
  CHECK(trend_t(last, 2) == doctest::Approx(5 / std::sqrt(70.0) * std::sqrt(6.0)));
  const std::vector<double> first(last.rbegin(), last.rend());
  CHECK(trend_t(first, 2) == doctest::Approx(-5 / std::sqrt(70.0) * std::sqrt(6.0)));
  // What is even about the middle has no trend, and a constant adds nothing.
  CHECK(trend_t(std::vector<double>{1, 2, 5, 5, 2, 1}, 2) == 0);
  CHECK(trend_t(std::vector<double>{7, 7, 7, 7, 7, 8}, 2) == doctest::Approx(5 / std::sqrt(70.0) * std::sqrt(6.0)));
  CHECK(trend_t(last, 3) == 0);  // too short for three
}

}  // namespace
}  // namespace epsim
