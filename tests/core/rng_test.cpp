// Streams are independent and fixed for ever; every distribution has the moments and, where it is discrete, the
// probabilities of its formula. Seeds are fixed, so a bound of 5 standard errors (1 in 1.7 million) never flickers.
#include "sim/core/rng.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/core/check.h"
#include "sim/core/statistics.h"

namespace epsim {
namespace {

constexpr int kDraws = 200000;

TEST_CASE("the first numbers of a stream never change") {
  RandomStream stream(Seed{1}, "golden", 2, 3);
  // Bits and uniform agree with a second implementation, from the papers, in another language. A change here changes
  // every published run.
  CHECK(stream.bits() == 0x0f34a003778488f9ULL);
  CHECK(stream.bits() == 0x4a7f29dee4627b07ULL);
  CHECK(stream.bits() == 0xc73d800c2043f22fULL);
  CHECK(stream.uniform() == 0x1.a0fbfd860c00ep-2);
  // Taken from these distributions when they were written.
  CHECK(stream.normal() == doctest::Approx(2.15808).epsilon(1e-5));
}

TEST_CASE("a stream depends on its seed, its name and both indices, and on nothing else") {
  const std::vector<RandomStream> others = {RandomStream(Seed{2}, "a", 1, 2), RandomStream(Seed{1}, "b", 1, 2),
                                            RandomStream(Seed{1}, "a", 2, 1), RandomStream(Seed{1}, "a", 1, 3),
                                            RandomStream(Seed{1}, "a", 0, 2), RandomStream(Seed{1}, "", 1, 2)};
  RandomStream stream(Seed{1}, "a", 1, 2), same(Seed{1}, "a", 1, 2);
  const std::uint64_t first = stream.bits();
  CHECK(first == same.bits());
  for (RandomStream other : others) {
    CHECK(other.bits() != first);
  }
}

TEST_CASE("drawing from one stream leaves the others as they were") {
  std::vector<std::uint64_t> alone;
  RandomStream arrivals(Seed{5}, "arrivals");
  for (int i = 0; i < 100; ++i) {
    alone.push_back(arrivals.bits());
  }
  RandomStream again(Seed{5}, "arrivals"), lengths(Seed{5}, "lengths");
  for (int i = 0; i < 100; ++i) {
    for (int k = 0; k < i % 7; ++k) {
      lengths.normal();
    }
    CHECK(again.bits() == alone[static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("neighbouring streams do not repeat or follow each other") {
  std::set<std::uint64_t> first;
  RunningStats product;
  double before = 0.5;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    RandomStream stream(Seed{9}, "request", i);
    const double u = stream.uniform();
    first.insert(RandomStream(Seed{9}, "request", i).bits());
    product.add((u - 0.5) * (before - 0.5));
    before = u;
  }
  CHECK(first.size() == 20000);
  // The product of two independent centred uniforms: mean 0, deviation 1/12.
  CHECK(std::fabs(product.mean()) < 5.0 / 12.0 / std::sqrt(20000.0));
}

// Mean and variance within 5 standard errors; the one of the variance is sqrt((kurtosis - 1) / n) variances.
void check_moments(const std::string& name, const std::function<double(RandomStream&)>& draw, double mean,
                   double variance, double kurtosis) {
  CAPTURE(name);
  RandomStream stream(Seed{21}, name);
  RunningStats stats;
  for (int i = 0; i < kDraws; ++i) {
    stats.add(draw(stream));
  }
  CHECK(std::fabs(stats.mean() - mean) < 5.0 * std::sqrt(variance / kDraws));
  CHECK(std::fabs(stats.variance() - variance) < 5.0 * variance * std::sqrt((kurtosis - 1.0) / kDraws));
}

TEST_CASE("continuous distributions have the moments of their formulas") {
  check_moments(
      "uniform", [](RandomStream& r) { return r.uniform(); }, 0.5, 1.0 / 12, 1.8);
  check_moments(
      "normal", [](RandomStream& r) { return r.normal(); }, 0, 1, 3);
  check_moments(
      "exponential", [](RandomStream& r) { return r.exponential(2.5); }, 2.5, 6.25, 9);
  for (const double shape : {0.3, 1.0, 4.5}) {  // below 1 takes the boosted branch
    check_moments(
        "gamma" + std::to_string(shape), [&](RandomStream& r) { return r.gamma(shape, 3.0); }, shape * 3.0, shape * 9.0,
        3 + 6 / shape);
  }
  // exp of a normal(1, 0.5^2), w = e^0.25: mean e^1.125, variance mean^2 (w - 1), kurtosis w^4 + 2 w^3 + 3 w^2 - 3
  const double w = std::exp(0.25), mean = std::exp(1.125);
  check_moments(
      "lognormal", [](RandomStream& r) { return r.lognormal(1.0, 0.5); }, mean, mean * mean * (w - 1),
      w * w * w * w + 2 * w * w * w + 3 * w * w - 3);
}

TEST_CASE("geometric counts have the moments of their formula") {
  for (const double mean : {1.2, 8.0, 250.0}) {
    const double p = 1 / mean, q = 1 - p;
    check_moments(
        "geometric" + std::to_string(mean), [&](RandomStream& r) { return static_cast<double>(r.geometric(mean)); },
        mean, q / (p * p), 9 + p * p / q);
  }
  RandomStream stream(Seed{1}, "edges");
  for (int i = 0; i < 100; ++i) {
    CHECK(stream.geometric(1.0) == 1);
  }
}

// Every value's share of the draws lies within 5 standard errors of its probability.
void check_shares(const std::string& name, const std::function<std::int64_t(RandomStream&)>& draw,
                  const std::vector<double>& probability) {
  CAPTURE(name);
  RandomStream stream(Seed{22}, name);
  std::vector<int> count(probability.size());
  for (int i = 0; i < kDraws; ++i) {
    const auto value = static_cast<std::size_t>(draw(stream));
    if (value < count.size()) {
      ++count[value];
    }
  }
  for (std::size_t k = 0; k < count.size(); ++k) {
    CAPTURE(k);
    const double expected = probability[k] * kDraws;
    CHECK(std::fabs(count[k] - expected) <= 5.0 * std::sqrt(expected * (1 - probability[k])) + 1.0);
  }
}

TEST_CASE("below() gives each number the same share") {
  for (const std::uint64_t n : {1, 2, 3, 7, 100}) {
    check_shares(
        "below" + std::to_string(n), [&](RandomStream& r) { return static_cast<std::int64_t>(r.below(n)); },
        std::vector<double>(n, 1.0 / static_cast<double>(n)));
  }
  // Of 3 * 2^62 numbers a plain remainder of 64 bits would give the first third a share of 1/2.
  const std::uint64_t third = std::uint64_t{1} << 62;
  check_shares("below3/4", [&](RandomStream& r) { return static_cast<std::int64_t>(r.below(3 * third) / third); },
               {1.0 / 3, 1.0 / 3, 1.0 / 3});
}

TEST_CASE("shuffle() gives each order the same share") {
  RandomStream stream(Seed{6}, "shuffle");
  std::map<std::vector<int>, int> seen;
  for (int i = 0; i < kDraws; ++i) {
    std::vector<int> items = {0, 1, 2};
    stream.shuffle(items);
    ++seen[items];
  }
  CHECK(seen.size() == 6);
  const double share = 1.0 / 6;
  for (const auto& [order, count] : seen) {
    CHECK(std::abs(count - kDraws * share) < 5 * std::sqrt(kDraws * share * (1 - share)));
  }
}

TEST_CASE("arguments outside a distribution's range break an invariant") {
  RandomStream stream(Seed{1}, "bad");
  CHECK_THROWS_AS(stream.below(0), InvariantBroken);
  CHECK_THROWS_AS(stream.gamma(0, 1), InvariantBroken);
  CHECK_THROWS_AS(stream.gamma(1, -1), InvariantBroken);
  CHECK_THROWS_AS(stream.geometric(0.5), InvariantBroken);
}

}  // namespace
}  // namespace epsim
