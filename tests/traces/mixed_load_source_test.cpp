// Loads that change during a run, and loads of several sources at once.
#include "traces/expert_loads/mixed_load_source.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "sim/core/units.h"
#include "sim/domain/affinity.h"
#include "tests/traces/support.h"
#include "traces/expert_loads/load_sources.h"

namespace epsim {
namespace {

using test::contains;
using test::message;

const std::string kTwo =
    "windows:\n"
    "  - {kind: uniform, variation: none, for: 10min}\n"
    "  - {kind: zipf, exponent: 0.5, variation: none, for: 5min}\n";

std::unique_ptr<ExpertLoadSource> source_of(const std::string& yaml, const MoeSpec& model) {
  const Config config = Config::from_text(yaml, "loads.yaml");
  ConfigReader in = config.root();
  std::unique_ptr<ExpertLoadSource> out = make_load_source(in, model, Seed{1});
  in.finish();
  return out;
}

LoadWindow window_of_text(const std::string& yaml, const MoeSpec& model) {
  const Config config = Config::from_text(yaml, "loads.yaml");
  ConfigReader in = config.root();
  return read_load_window(in, model, Seed{1});
}

// Load per token of the hottest expert of layer 0 in a step that starts at `at`; top-2 of 4 experts.
float hottest(const ExpertLoadSource& source, std::int64_t step, Seconds at) {
  StepLoads loads;
  source.draw_mixed({step, to_ticks(at)}, std::vector<std::int64_t>{100}, std::vector<std::int64_t>{0}, loads);
  const auto row = loads.row(0, 0);
  return *std::max_element(row.begin(), row.end());
}

// Even loads (0.5 a token and expert) and power-law loads (0.7182 on the hottest) in these shares.
std::string mix(const std::string& even, const std::string& skewed, const std::string& rest = "") {
  return "mix:\n  - {kind: uniform, variation: none, share: " + even +
         "}\n  - {kind: zipf, exponent: 0.5, variation: none, share: " + skewed + "}\n" + rest;
}
double hottest_at_share(double skewed) { return 0.5 + (0.7182 - 0.5) * skewed; }

}  // namespace

TEST_CASE("load windows: a step's start says whose loads it has, and the last one's hold on") {
  const MoeSpec model = test::small_model(3, 0, 4, 2);
  const auto source = source_of(kTwo, model);
  // Even loads: 2/4. Exponent 1/2: 2 / (1 + 2^-1/2 + 3^-1/2 + 4^-1/2) = 0.7182.
  for (const std::int64_t step : {0, 1000}) {  // the number of the step says nothing
    CHECK(hottest(*source, step, 0_s) == doctest::Approx(0.5));
    CHECK(hottest(*source, step, 599.999_s) == doctest::Approx(0.5));
    CHECK(hottest(*source, step, 600_s) == doctest::Approx(0.7182).epsilon(1e-3));
    CHECK(hottest(*source, step, 899_s) == doctest::Approx(0.7182).epsilon(1e-3));
    CHECK(hottest(*source, step, 1e6_s) == doctest::Approx(0.7182).epsilon(1e-3));
  }
}

TEST_CASE("windows change during a run, and mixtures whose shares differ from time to time; one window does not") {
  const MoeSpec model = test::small_model(3, 0, 4, 2);
  CHECK(source_of(kTwo, model)->changes());
  CHECK(source_of(mix("[1, 0]", "[0, 1]", "every: 1s"), model)->changes());
  CHECK_FALSE(source_of(mix("3", "1"), model)->changes());
  CHECK_FALSE(source_of(mix("[1, 2]", "[1, 2]", "every: 1s"), model)->changes());  // halves at any time
  CHECK_FALSE(source_of("windows: [{kind: uniform, for: 1s}]", model)->changes());
}

TEST_CASE("load windows: to plan from, their mean over the time that they hold") {
  const MoeSpec model = test::small_model(3, 0, 4, 2);
  const LoadWindow mean = window_of_text(kTwo, model);
  const auto row = mean.layer(0);
  // (600 s x 0.25 + 300 s x 0.3591) / 900 s
  CHECK(*std::max_element(row.begin(), row.end()) / mean.total(0) ==
        doctest::Approx((600 * 0.25 + 300 * 0.3591) / 900).epsilon(1e-3));
}

TEST_CASE("mixtures: a step has the sources' rows in the shares of its tokens") {
  const MoeSpec model = test::small_model(3, 0, 4, 2);
  // 1 to 3 of 100 tokens: 25 and 75; shares are over their sum.
  CHECK(hottest(*source_of(mix("1", "3"), model), 0, 0_s) == doctest::Approx(hottest_at_share(0.75)).epsilon(1e-3));
  CHECK(hottest(*source_of(mix("0", "3"), model), 0, 0_s) == doctest::Approx(hottest_at_share(1)).epsilon(1e-3));
  // 0 after 0 s, 1 after 10 s, 0.4 from 20 s on; linear between.
  const auto source = source_of(mix("[1, 0, 0.6]", "[0, 1, 0.4]", "every: 10s"), model);
  const std::pair<double, double> shares[] = {{0, 0}, {5, 0.5}, {7.5, 0.75}, {10, 1}, {15, 0.7}, {20, 0.4}, {1e5, 0.4}};
  for (const auto& [time, share] : shares) {
    CHECK(hottest(*source, 7, Seconds{time}) == doctest::Approx(hottest_at_share(share)).epsilon(1e-3));
  }
}

TEST_CASE("mixtures: tokens are whole, and a rank's single decodes come from each source as often as it says") {
  const MoeSpec model = test::small_model(3, 0, 4, 2);
  const auto source = source_of(mix("0.7", "0.3"), model);
  int skewed = 0;
  for (std::int64_t step = 0; step < 2000; ++step) {
    StepLoads loads;
    source->draw_mixed(step, std::vector<std::int64_t>{1}, std::vector<std::int64_t>{1}, loads);
    const auto row = loads.row(1, 0);
    const float most = *std::max_element(row.begin(), row.end());
    CHECK((most == doctest::Approx(0.5) || most == doctest::Approx(0.7182).epsilon(1e-3)));
    skewed += most > 0.6F ? 1 : 0;
  }
  // 600 expected, one standard deviation is sqrt(2000 x 0.3 x 0.7) = 20.5.
  CHECK(std::abs(skewed - 600) < 4 * 20.5);
}

TEST_CASE("mixtures: ranks with loads of their own keep them") {
  const MoeSpec model = test::small_model(3, 0, 64, 4);
  const std::string ragged = "{kind: imbalance, pattern: source_ragged, share: 1}";
  const auto draw = [&](const std::string& yaml) {
    StepLoads loads;
    source_of(yaml, model)->draw(0, std::vector<std::int64_t>{40, 20}, loads);
    return loads;
  };
  const StepLoads alone = draw("mix: [" + ragged + "]"),
                  both = draw("mix: [" + ragged + ", {kind: uniform, variation: none, share: 1}]");
  REQUIRE(alone.sources == 2);
  REQUIRE(both.sources == 2);
  for (const int rank : {0, 1}) {
    // Half of the rank's tokens; what the others use is 4 / 64.
    CHECK(both.row(0, rank)[0] == doctest::Approx((alone.row(0, rank)[0] + 4.0 / 64) / 2));
    CHECK(both.row(2, rank)[63] == doctest::Approx((alone.row(2, rank)[63] + 4.0 / 64) / 2));
  }
  CHECK(alone.row(0, 0)[0] != doctest::Approx(alone.row(0, 1)[0]));
}

TEST_CASE("mixtures: to plan from, the mean over the time that shares are given for, and tokens of all sources") {
  const MoeSpec model = test::small_model(3, 0, 4, 2);
  const auto hottest_share = [](const LoadWindow& w) {
    return 2 * *std::max_element(w.layer(0).begin(), w.layer(0).end()) / w.total(0);
  };
  // 0, 1, 0.4 at three times: (0 / 2 + 1 + 0.4 / 2) / 2 = 0.6.
  CHECK(hottest_share(window_of_text(mix("[1, 0, 0.6]", "[0, 1, 0.4]", "every: 10s"), model)) ==
        doctest::Approx(hottest_at_share(0.6)).epsilon(1e-3));
  CHECK(window_of_text(mix("1", "1"), model).affinity() == nullptr);

  MoeSpec olmoe = test::small_model(16, 0, 64, 8);
  olmoe.name = "olmoe-1b-7b";
  const std::string part = "{kind: model, preset: olmoe, steps: 1, tokens: 64, affinity_tokens: 400, pattern_seed: ";
  const LoadWindow two = window_of_text("mix: [" + part + "1, share: 1}, " + part + "2, share: 3}]", olmoe);
  REQUIRE(two.affinity() != nullptr);
  CHECK(two.affinity()->tokens().tokens() == 400 / 3 + 400);
  CHECK(window_of_text("mix: [" + part + "1, share: 1}, {kind: uniform, share: 1}]", olmoe).affinity() == nullptr);
}

TEST_CASE("load windows: what is missing is named") {
  const MoeSpec model = test::small_model(3, 0, 4, 2);
  CHECK(contains(message([&] { source_of("windows: []", model); }), "windows"));
  CHECK(contains(message([&] { source_of("windows: [{kind: uniform}]", model); }), "for"));
  CHECK(contains(message([&] { source_of("windows: [{kind: uniform, for: 1s}]\nkind: uniform", model); }), "kind"));
  CHECK(contains(message([&] { source_of("mix: []", model); }), "mix"));
  CHECK(contains(message([&] { source_of("mix: [{kind: uniform}]", model); }), "share"));
  CHECK(contains(message([&] { source_of("mix: [{kind: uniform, share: []}]", model); }), "share"));
  CHECK(contains(message([&] { source_of(mix("[1, 0]", "[1, 0]", "every: 1s"), model); }), "all shares are 0"));
  CHECK(contains(message([&] { source_of(mix("[1, 0]", "[0, 1]"), model); }), "every"));
  CHECK(contains(message([&] { source_of(mix("1", "1", "every: 1s"), model); }), "every"));
}

}  // namespace epsim
