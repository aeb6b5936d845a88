#include "traces/format/statistics.h"

#include <doctest/doctest.h>

#include <cmath>

namespace epsim {
namespace {

TEST_CASE("one layer, worked out by hand") {
  // 16 experts: 6, 2, then 14 with 1 / 1.75 each, 16 in all; the mean is 1.
  std::vector<double> loads(16, 8.0 / 14);
  loads[5] = 6;
  loads[4] = 2;
  const LayerSkew s = layer_skew(loads);
  CHECK(s.max_over_mean == doctest::Approx(6.0));
  CHECK(s.top1_share == doctest::Approx(6.0 / 16));
  CHECK(s.top2_share == doctest::Approx(8.0 / 16));
  CHECK(s.top_tenth_share == doctest::Approx(6.0 / 16));  // 1.6 experts, rounded down
  // On 8 GPUs of two experts the third takes 8 of 16, the mean is 2; on 16 the busiest takes 6, the mean is 1.
  CHECK(*s.balancedness[0] == doctest::Approx(0.25));
  CHECK(*s.balancedness[1] == doctest::Approx(1.0 / 6));
  CHECK_FALSE(s.balancedness[2].has_value());
  // Entropy: 3/8 ln(8/3) + 1/8 ln 8 + 14 x 1/28 ln 28.
  CHECK(std::log(s.effective_experts) ==
        doctest::Approx(0.375 * std::log(8.0 / 3) + 0.125 * std::log(8.0) + 0.5 * std::log(28.0)));
}

TEST_CASE("gini: equal, all on one, and a half-half split") {
  CHECK(layer_skew(std::vector<double>{2, 2, 2, 2}).gini == doctest::Approx(0.0));
  CHECK(layer_skew(std::vector<double>{0, 0, 0, 8}).gini == doctest::Approx(0.75));  // 1 - 1/n
  CHECK(layer_skew(std::vector<double>{0, 4, 0, 4}).gini == doctest::Approx(0.5));
}

TEST_CASE("a layer without load is uniform") {
  const LayerSkew s = layer_skew(std::vector<double>(8, 0.0));
  CHECK(s.max_over_mean == doctest::Approx(1.0));
  CHECK(s.effective_experts == doctest::Approx(8.0));
  CHECK(*s.balancedness[0] == 1.0);
}

TEST_CASE("quantiles are interpolated") {
  const std::vector<double> v{1, 2, 4};
  CHECK(linear_quantile(v, 0.5) == 2);
  CHECK(linear_quantile(v, 0.75) == 3);
  CHECK(linear_quantile(v, 0.9) == doctest::Approx(3.6));
}

TEST_CASE("the summary is over layers") {
  LoadWindow w(2, 8);
  for (int e = 0; e < 8; ++e) {
    w.layer(0)[static_cast<std::size_t>(e)] = 1;
  }
  w.layer(1)[3] = 8;
  const SkewSummary s = skew_summary(w);
  CHECK(s.assignments == 16);
  CHECK(s.min == doctest::Approx(1.0));
  CHECK(s.max == doctest::Approx(8.0));
  CHECK(s.median == doctest::Approx(4.5));
  CHECK(*s.average.balancedness[0] == doctest::Approx(0.5 * (1 + 0.125)));
  CHECK(*s.worst_balancedness[0] == doctest::Approx(0.125));
}

}  // namespace
}  // namespace epsim
