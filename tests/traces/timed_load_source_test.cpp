// Loads that change during a run.
#include "traces/expert_loads/timed_load_source.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "sim/core/units.h"
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

TEST_CASE("load windows: to plan from, their mean over the time that they hold") {
  const MoeSpec model = test::small_model(3, 0, 4, 2);
  const LoadWindow mean = window_of_text(kTwo, model);
  const auto row = mean.layer(0);
  // (600 s x 0.25 + 300 s x 0.3591) / 900 s
  CHECK(*std::max_element(row.begin(), row.end()) / mean.total(0) ==
        doctest::Approx((600 * 0.25 + 300 * 0.3591) / 900).epsilon(1e-3));
}

TEST_CASE("load windows: what is missing is named") {
  const MoeSpec model = test::small_model(3, 0, 4, 2);
  CHECK(contains(message([&] { source_of("windows: []", model); }), "windows"));
  CHECK(contains(message([&] { source_of("windows: [{kind: uniform}]", model); }), "for"));
  CHECK(contains(message([&] { source_of("windows: [{kind: uniform, for: 1s}]\nkind: uniform", model); }), "kind"));
}

}  // namespace epsim
