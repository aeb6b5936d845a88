// The imbalance suite: each pattern is what its name says, and balanced is balanced on every rank.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/traces/support.h"
#include "traces/expert_loads/imbalance_suite.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/format/statistics.h"

namespace epsim {
namespace {

constexpr int kExperts = 256, kTopK = 8;

std::unique_ptr<ExpertLoadSource> source_of(const std::string& keys) {
  ConfigReader in = Config::from_text("kind: imbalance\n" + keys, "s.yaml").root();
  auto source = make_load_source(in, test::deepseek_r1_shape(), Seed{1});
  in.finish();
  return source;
}

std::vector<double> row_of(const ExpertLoadSource& source, std::int64_t step, int source_rank = 0,
                           std::size_t ranks = 1) {
  StepLoads loads;
  source.draw(step, std::vector<std::int64_t>(ranks, 100), loads);
  const auto row = loads.row(0, loads.sources == 1 ? 0 : source_rank);
  return {row.begin(), row.end()};
}

double gpu_max_over_mean(const std::vector<double>& row, int gpus) { return 1 / contiguous_balancedness(row, gpus); }

TEST_CASE("every pattern routes top-k assignments per token, at most one per expert") {
  for (const std::string& name : names_of<Imbalance>()) {
    CAPTURE(name);
    const auto source = source_of("pattern: " + name);
    for (const std::int64_t step : {0, 5, 50, 150, 799}) {
      StepLoads loads;
      source->draw(step, std::vector<std::int64_t>(8, 4096), loads);
      for (int l = 0; l < loads.layers; ++l) {
        for (int s = 0; s < loads.sources; ++s) {
          double sum = 0;
          for (const float x : loads.row(l, s)) {
            REQUIRE((x >= 0 && x <= 1));
            sum += static_cast<double>(x);
          }
          REQUIRE(sum == doctest::Approx(kTopK));
        }
      }
    }
  }
}

TEST_CASE("self-test: balanced is balanced on every rank, loads and ids alike") {
  const auto source = source_of("pattern: balanced");
  for (const int gpus : {2, 4, 8, 16, 32, 64, 128, 256}) {
    CHECK(contiguous_balancedness(row_of(*source, 3), gpus) == doctest::Approx(1.0));
  }
}

TEST_CASE("hot experts, a hot rank, and heat spread over ranks") {
  // Two experts at 4 times the mean of 8 / 256.
  const std::vector<double> hot = row_of(*source_of("pattern: hot_experts\nhot: 2\nfactor: 4"), 0);
  CHECK(std::count(hot.begin(), hot.end(), 0.125) == 2);
  CHECK(layer_skew(hot).max_over_mean == doctest::Approx(4.0));
  const std::vector<double> rank = row_of(*source_of("pattern: hot_rank\ngpus: 16\nfactor: 4"), 0);
  CHECK(gpu_max_over_mean(rank, 16) == doctest::Approx(4.0));
  CHECK(layer_skew(rank).max_over_mean == doctest::Approx(4.0));
  const std::vector<double> spread = row_of(*source_of("pattern: spread_hot\ngpus: 16\nfactor: 4"), 0);
  CHECK(gpu_max_over_mean(spread, 16) == doctest::Approx(1.0));
  CHECK(layer_skew(spread).max_over_mean == doctest::Approx(4.0));
}

TEST_CASE("ragged sources differ, and their sum is balanced") {
  const auto source = source_of("pattern: source_ragged\nfactor: 3");
  std::vector<double> sum(kExperts, 0.0);
  for (int s = 0; s < 8; ++s) {
    const std::vector<double> row = row_of(*source, 0, s, 8);
    CHECK(gpu_max_over_mean(row, 8) == doctest::Approx(3.0));
    std::transform(row.begin(), row.end(), sum.begin(), sum.begin(), std::plus<>());
  }
  CHECK(layer_skew(sum).max_over_mean == doctest::Approx(1.0));
  CHECK(layer_skew(row_of(*source, 0)).max_over_mean == doctest::Approx(1.0));  // a source alone
}

TEST_CASE("zero load: the idle experts take nothing, the others the same") {
  const std::vector<double> row = row_of(*source_of("pattern: zero_load\nidle: 0.75"), 0);
  CHECK(std::count(row.begin(), row.end(), 0.0) == 192);
  CHECK(std::count(row.begin(), row.end(), 8.0 / 64) == 64);
}

TEST_CASE("a rotating hotspot visits every GPU; a burst comes and goes") {
  const auto rotating = source_of("pattern: rotating_hotspot\ngpus: 4\nperiod: 10\nfactor: 2");
  std::set<std::size_t> visited;
  for (int step = 0; step < 40; step += 10) {
    const std::vector<double> row = row_of(*rotating, step);
    CHECK(row == row_of(*rotating, step + 9));
    CHECK(row != row_of(*rotating, step + 10));
    visited.insert(static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin()) / 64);
  }
  CHECK(visited.size() == 4);
  const auto burst = source_of("pattern: burst\nperiod: 10\nlength: 2\nhot: 1\nfactor: 8");
  for (int step = 0; step < 20; ++step) {
    CHECK(layer_skew(row_of(*burst, step)).max_over_mean == doctest::Approx(step % 10 < 2 ? 8.0 : 1.0));
  }
}

TEST_CASE("as a window to plan from: the mean over a cycle") {
  ConfigReader in = Config::from_text(
                        "kind: imbalance\npattern: burst\nperiod: 10\nlength: 2\nhot: 1\nfactor: 6\n"
                        "tokens: 1000\n",
                        "s.yaml")
                        .root();
  const LoadWindow window = read_load_window(in, test::deepseek_r1_shape(), Seed{1});
  in.finish();
  CHECK(window.total(0) == doctest::Approx(8000));
  // 6 times the mean in a fifth of the steps, else once: 2 times.
  CHECK(layer_skew(window.layer(0)).max_over_mean == doctest::Approx(2.0));
}

TEST_CASE("patterns that no routing can have are refused") {
  const auto key = [](const std::string& keys) { return test::input_error([&] { source_of(keys); }).place.key; };
  CHECK(test::contains(key("pattern: hot_experts\nfactor: 33"), "factor"));  // 256 / 8 = 32 is every token
  CHECK(test::contains(key("pattern: hot_rank\ngpus: 7"), "gpus"));
  CHECK(test::contains(key("pattern: hot_rank\ngpus: 8\nfactor: 9"), "factor"));
  CHECK(test::contains(key("pattern: zero_load\nidle: 0.98"), "idle"));
  CHECK(test::contains(key("pattern: burst\nperiod: 5\nlength: 6"), "length"));
  CHECK(test::contains(key("pattern: balanced\nfactor: 2"), "factor"));  // nobody reads it
  CHECK(test::contains(key("pattern: hot_expert"), "pattern"));
}

}  // namespace
}  // namespace epsim
