#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/core/statistics.h"
#include "tests/traces/support.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/expert_loads/synthetic.h"

namespace epsim {
namespace {

using test::contains;
using test::message;

LoadWindow read(const std::string& yaml, const MoeSpec& model, Seed seed = Seed{1}) {
  const Config config = Config::from_text(yaml, "loads.yaml");
  ConfigReader in = config.root();
  LoadWindow window = read_load_window(in, model, seed);
  in.finish();
  return window;
}

double max_over_mean(const LoadWindow& w, int l) {
  return *std::max_element(w.layer(l).begin(), w.layer(l).end()) * w.experts() / w.total(l);
}
std::ptrdiff_t hottest(const LoadWindow& w, int l) {
  return std::max_element(w.layer(l).begin(), w.layer(l).end()) - w.layer(l).begin();
}

TEST_CASE("power law: the shares are those of the law, and its exponent is found from max / mean") {
  // Exponent 1 on 4 ranks: 1, 1/2, 1/3, 1/4 over 25/12.
  const std::vector<double> s = power_law_shares(4, 1.0);
  CHECK(s[0] == doctest::Approx(12.0 / 25));
  CHECK(s[3] == doctest::Approx(3.0 / 25));
  CHECK(power_law_exponent(4, 48.0 / 25) == doctest::Approx(1.0).epsilon(1e-12));
  CHECK(power_law_exponent(4, 1.0) == 0.0);
  CHECK(power_law_shares(256, power_law_exponent(256, 27.0))[0] * 256 == doctest::Approx(27.0).epsilon(1e-12));
}

TEST_CASE("uniform: tokens x top-k over the experts") {
  const LoadWindow w = read("{kind: uniform, tokens: 100}", test::small_model(5, 2, 4, 2));
  REQUIRE(w.layers() == 3);
  for (const double x : w.layer(2)) {
    CHECK(x == doctest::Approx(50.0));  // 100 x 2 / 4
  }
}

TEST_CASE("zipf: stated exponent, hot experts drawn for every layer") {
  const MoeSpec model = test::deepseek_r1_shape();
  const LoadWindow w = read("{kind: zipf, exponent: 0.5}", model);
  std::vector<double> row(w.layer(7).begin(), w.layer(7).end());
  std::sort(row.rbegin(), row.rend());
  CHECK(row[0] / row[3] == doctest::Approx(2.0));  // (4 / 1)^0.5
  std::set<std::ptrdiff_t> hot;
  for (int l = 0; l < w.layers(); ++l) {
    hot.insert(hottest(w, l));
  }
  CHECK(hot.size() > 40);  // 58 draws of 256 meet about 6 times
  CHECK(hottest(read("{kind: zipf, exponent: 0.5}", model), 0) == hottest(w, 0));
  // Sum over r of r^-2 is 1.6411 for 256 ranks: the hottest would take 8 / 1.6411 assignments per token.
  CHECK(contains(message([&] { read("{kind: zipf, exponent: 2}", model); }), "gives the hottest expert 4.87"));
}

TEST_CASE("a top-1 model: any exponent, up to every token on one expert") {
  const MoeSpec model = test::small_model(4, 1, 16, 1);
  // Exponent 1 on 16 ranks: the hottest share is 1 over the 16th harmonic number, 3.38073.
  const LoadWindow w = read("{kind: zipf, exponent: 1, tokens: 1000}", model);
  CHECK(max_over_mean(w, 0) == doctest::Approx(16 / 3.38073).epsilon(1e-5));
  CHECK(max_over_mean(read("{kind: zipf, exponent: 80}", model), 0) == doctest::Approx(16));
  CHECK(max_over_mean(read("{kind: skew, max_over_mean: [16, 16, 16]}", model), 2) == doctest::Approx(16));
  // What drifts above every token is cut to it, and nothing is left for the others.
  for (const char* window : {"1", "2", "3", "4"}) {
    const LoadWindow moved =
        read(std::string("{kind: zipf, exponent: 80, drift: 1, tokens: 1000, window: ") + window + "}", model);
    for (int l = 0; l < moved.layers(); ++l) {
      CHECK(moved.total(l) == doctest::Approx(1000));
      CHECK(std::all_of(moved.layer(l).begin(), moved.layer(l).end(), [](double x) { return x >= 0 && x <= 1000; }));
    }
  }
}

TEST_CASE("skew: a list is met layer by layer, up to every token on one expert") {
  const MoeSpec model = test::small_model(4, 1, 64, 4);
  const LoadWindow w = read("{kind: skew, max_over_mean: [1, 2.5, 16]}", model);  // 64 / 4 = 16 is the limit
  CHECK(max_over_mean(w, 0) == doctest::Approx(1.0).epsilon(1e-9));
  CHECK(max_over_mean(w, 1) == doctest::Approx(2.5).epsilon(1e-9));
  CHECK(max_over_mean(w, 2) == doctest::Approx(16.0).epsilon(1e-9));
  CHECK(w.total(2) == doctest::Approx(8388608.0 * 4));
}

TEST_CASE("skew: the stated share of layers is high, the rest low") {
  const LoadWindow w = read("{kind: skew, low: 3, high: 12, high_share: 0.25}", test::deepseek_r1_shape());
  int high = 0;
  for (int l = 0; l < w.layers(); ++l) {
    const bool is_high = max_over_mean(w, l) > 7;
    CHECK(max_over_mean(w, l) == doctest::Approx(is_high ? 12.0 : 3.0).epsilon(1e-9));
    high += is_high ? 1 : 0;
  }
  CHECK(high == 15);  // 14.5 of 58, rounded
}

TEST_CASE("skew: a range is covered evenly in the logarithm") {
  const LoadWindow w = read("{kind: skew, range: [2, 8]}", test::small_model(3, 0, 64, 4));
  std::vector<double> skews{max_over_mean(w, 0), max_over_mean(w, 1), max_over_mean(w, 2)};
  std::sort(skews.begin(), skews.end());
  CHECK(skews[0] == doctest::Approx(2.0).epsilon(1e-9));
  CHECK(skews[1] == doctest::Approx(4.0).epsilon(1e-9));
  CHECK(skews[2] == doctest::Approx(8.0).epsilon(1e-9));
}

TEST_CASE("drift: windows of one workload differ as stated, with the same totals and nobody above every token") {
  const MoeSpec model = test::deepseek_r1_shape();
  const auto window = [&](const std::string& keys) {
    return read("{kind: skew, range: [4, 31], " + keys + "}", model);
  };
  const LoadWindow a = window("drift: 0.2, window: 1"), b = window("drift: 0.2, window: 2"), still = window("drift: 0");
  RunningStats moved, between;
  for (int l = 0; l < a.layers(); ++l) {
    CHECK(a.total(l) == doctest::Approx(still.total(l)).epsilon(1e-9));
    for (std::size_t e = 0; e < 256; ++e) {
      CHECK(a.layer(l)[e] <= 8388608.0 * (1 + 1e-12));
      moved.add(std::log(a.layer(l)[e] / still.layer(l)[e]));
      between.add(std::log(a.layer(l)[e] / b.layer(l)[e]));
    }
  }
  // 14,848 experts; the scaling back of layers adds a little to the 0.2, the capping of the hottest takes a little.
  CHECK(std::sqrt(moved.variance()) == doctest::Approx(0.2).epsilon(0.05));
  CHECK(std::sqrt(between.variance()) == doctest::Approx(0.2 * std::sqrt(2.0)).epsilon(0.05));
  CHECK(contains(message([&] { window("drift: 4"); }), "at most 3"));
}

TEST_CASE("impossible skews are refused") {
  const MoeSpec model = test::small_model(4, 1, 64, 4);
  struct Row {
    std::string yaml, part;
  };
  for (const Row& r : {
           Row{"{kind: skewed}", "nearest first: skew"},
           Row{"{kind: skew, max_over_mean: [1, 2]}", "2 values for the 3 MoE layers"},
           Row{"{kind: skew, max_over_mean: [1, 2, 16.5]}", "at least 1 and at most 16"},
           Row{"{kind: skew, max_over_mean: [1, 2, 0.5]}", "at least 1 and at most 16"},
           Row{"{kind: skew, max_over_mean: [1, 2, .nan]}", "finite"},
           Row{"{kind: skew, low: 3, high: 2, high_share: 0.5}", "low may not exceed high"},
           Row{"{kind: skew, low: 2, high: 3, high_share: 1.5}", "at most 1"},
           Row{"{kind: skew, range: [8, 2]}", "this is [lowest, highest]"},
           Row{"{kind: skew, range: [2, 17]}", "at least 1 and at most 16"},
           Row{"{kind: skew, low: 2, high: 3}", "required and missing"},
           Row{"{kind: uniform, tokens: 0}", "greater than 0"},
       }) {
    CAPTURE(r.yaml);
    CHECK(contains(message([&] { read(r.yaml, model); }), r.part));
  }
}

}  // namespace
}  // namespace epsim
