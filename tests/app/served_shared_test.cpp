// InferenceX's points as the shipped layout reads them: which are expressed, and that their scenarios are valid.
#include <doctest/doctest.h>

#include <set>

#include "sim/app/served_guard.h"
#include "sim/app/served_run.h"
#include "sim/cluster/prepare.h"
#include "sim/scenario/read_scenario.h"
#include "tests/app/process.h"
#include "tests/support/paths.h"

namespace epsim::test {
namespace {

TEST_CASE("every expressed point of InferenceX has a scenario that fits; the others say why not") {
  const app::ServedLayout layout = app::read_served_layout(source_dir() / "experiments/served/inferencex.yaml");
  const auto points = app::read_served_points(shared_dir() / "data/inferencex/deepseek_r1_points.csv", layout);
  REQUIRE(points.size() == 473);
  std::set<std::vector<std::string>> scenarios;
  int expressed = 0;
  for (const app::ServedPoint& point : points) {
    CHECK(point.measured[0] > 0);
    CHECK(point.measured[1] > 0);
    CHECK(point.measured[2] > 0);
    if (!point.reasons.empty()) {
      continue;
    }
    ++expressed;
    if (scenarios.insert(point.assignments).second) {
      Config config = Config::from_file(*layout.scenario);
      config.set(point.assignments);
      config.set("loads={kind: uniform}");  // where they come from is the same for all, and takes most of the time
      const Scenario scenario = read_scenario(config, {});
      CHECK_NOTHROW(prepare_run(scenario, scenario.policies.front()));
    }
  }
  // In fp8. One instance each: 57 of SGLang on H200, 7 on B200, 5 on B300, 52 and 41 of TensorRT-LLM; with
  // multi-token prediction 4, 12, 4, 9 and 13. Prefill and decode apart: 47 of SGLang and 25 of TensorRT-LLM; with multi-token
  // prediction 13 and 18.
  // 157 of 158 in fp4.
  CHECK(expressed == 57 + 7 + 5 + 52 + 41 + 4 + 12 + 4 + 9 + 13 + 47 + 25 + 13 + 18 + 157);
  CHECK(scenarios.size() == 228);
}

// One scenario of each group of GPU, engine and precision with at most 8 requests in flight: those that take least. All
// points are held by `epsim validate --served TABLE --against experiments/served/errors.csv`.
TEST_CASE("no group of served points is further off than the committed errors say, by 2 points and 10 %") {
  app::ServedRequest request;
  request.table = shared_dir() / "data/inferencex/deepseek_r1_points.csv";
  request.layout = app::read_served_layout(source_dir() / "experiments/served/inferencex.yaml");
  request.scenario = *request.layout.scenario;
  std::vector<app::ServedPoint> points = app::quick_points(app::read_served_points(request.table, request.layout));
  std::erase_if(points, [](const app::ServedPoint& point) { return point.in_flight > 8; });
  const TempDir dir;
  REQUIRE(app::run_served(request, points, dir / "served", {}));
  const app::ServedBefore before = app::read_served_before(source_dir() / "experiments/served/errors.csv");
  const app::ServedHeld held = app::hold_served(before, points);
  CHECK(held.points == std::ssize(points));
  CHECK(held.lost == 0);
  INFO(app::held_text(before, held));
  CHECK(held.worse.empty());
}

}  // namespace
}  // namespace epsim::test
