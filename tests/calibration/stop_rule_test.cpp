// When repeating ends, and how sure the median is by then.
#include "calibration/measure/stop_rule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/core/error.h"
#include "sim/core/rng.h"
#include "tests/support/errors.h"

namespace epsim::test {
namespace {

using namespace measure;

std::vector<double> one_to(int n) {
  std::vector<double> out;
  for (int i = 1; i <= n; ++i) {
    out.push_back(i);
  }
  return out;
}

TEST_CASE("the interval's rank is the largest that leaves at most 2.5 % on each side") {
  CHECK(interval_rank(5) == 0);   // 1/32 is more than 2.5 %
  CHECK(interval_rank(6) == 1);   // 1/64
  CHECK(interval_rank(8) == 1);   // 1/256, but (1 + 8)/256 is 3.5 %
  CHECK(interval_rank(9) == 2);   // (1 + 9)/512 = 1.95 %
  CHECK(interval_rank(12) == 3);  // (1 + 12 + 66)/4096 = 1.93 %
  CHECK(interval_rank(1000) > 460);
  CHECK(interval_rank(1000) < 500);
}

TEST_CASE("the median of an even number is the mean of the middle two") {
  const std::vector<double> samples = {4, 1, 3, 2};
  CHECK(median_interval(samples).median == 2.5);
  CHECK(std::isinf(median_interval(samples).relative_half_width));
}

TEST_CASE("the half width comes from the order statistics") {
  // 9 samples: x_(2) = 2 to x_(8) = 8 around the median 5.
  CHECK(median_interval(one_to(9)).relative_half_width == doctest::Approx((8.0 - 2.0) / 2 / 5));
}

TEST_CASE("19 of 20 intervals hold the median of a skewed law") {
  RandomStream random(Seed{3}, "intervals");
  int held = 0;
  constexpr int kTrials = 4000;
  for (int t = 0; t < kTrials; ++t) {
    std::vector<double> samples;
    for (int i = 0; i < 15; ++i) {
      samples.push_back(random.exponential(1.0));
    }
    std::sort(samples.begin(), samples.end());
    const std::size_t rank = static_cast<std::size_t>(interval_rank(15));
    held += samples[rank - 1] <= std::log(2.0) && std::log(2.0) <= samples[15 - rank] ? 1 : 0;
  }
  // Coverage is at least 95 %; three standard deviations of 4000 trials are 1 %.
  CHECK(held > 0.94 * kTrials);
  CHECK(held < kTrials);
}

TEST_CASE("quiet samples stop at the least number of repeats") {
  const StopRule rule;
  std::vector<double> samples(static_cast<std::size_t>(rule.min_repeats) - 1, 1.0);
  CHECK(!settled(rule, samples, Seconds(100)));  // not even when time is up
  samples.push_back(1.0);
  const std::optional<Interval> interval = settled(rule, samples, Seconds(0));
  REQUIRE(interval);
  CHECK(interval->relative_half_width == 0);
}

TEST_CASE("wild samples stop at the budget or at the most repeats, whichever is first") {
  StopRule rule;
  rule.max_repeats = 50;
  CHECK(!settled(rule, one_to(49), Seconds(0)));
  CHECK(settled(rule, one_to(49), rule.budget));
  CHECK(settled(rule, one_to(50), Seconds(0)));
}

TEST_CASE("short executions are timed in batches, long ones alone") {
  const StopRule rule;  // batches of 50 us, at most 64
  CHECK(batch_size(rule, Seconds(1)) == 1);
  CHECK(batch_size(rule, Seconds(50e-6)) == 1);
  CHECK(batch_size(rule, Seconds(20e-6)) == 3);
  CHECK(batch_size(rule, Seconds(1e-9)) == 64);
  CHECK(batch_size(rule, Seconds(0)) == 64);
}

TEST_CASE("impossible rules are refused by name") {
  const auto key_of = [](auto change) {
    StopRule rule;
    change(rule);
    return error_of<InputError>([&] { rule.validate(); }).place.key;
  };
  CHECK(key_of([](StopRule& r) { r.relative_error = 0; }) == "relative_error");
  CHECK(key_of([](StopRule& r) { r.min_repeats = 5; }) == "min_repeats");
  CHECK(key_of([](StopRule& r) { r.max_repeats = 6; }) == "max_repeats");
  CHECK(key_of([](StopRule& r) { r.budget = Seconds(0); }) == "budget");
  StopRule().validate();
}

}  // namespace
}  // namespace epsim::test
