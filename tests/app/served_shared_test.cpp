// InferenceX's points as the shipped layout reads them: which are expressed, and that their scenarios are valid.
#include <doctest/doctest.h>

#include <set>

#include "sim/app/served_layout.h"
#include "sim/cluster/prepare.h"
#include "sim/scenario/read_scenario.h"
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
      for (const std::string& one : point.assignments) {
        config.set(one);
      }
      const Scenario scenario = read_scenario(config, {});
      CHECK_NOTHROW(prepare_run(scenario, scenario.policies.front()));
    }
  }
  // In fp8. One instance each: 57 of SGLang on H200, 7 on B200, 5 on B300, 52 and 41 of TensorRT-LLM; with
  // multi-token prediction 4, 12, 4, 9 and 13. Prefill and decode apart: 47 of SGLang and 25 of TensorRT-LLM; with multi-token
  // prediction 13 and 18.
  // 157 of 158 in fp4.
  CHECK(expressed == 57 + 7 + 5 + 52 + 41 + 4 + 12 + 4 + 9 + 13 + 47 + 25 + 13 + 18 + 157);
  CHECK(scenarios.size() == 224);
}

}  // namespace
}  // namespace epsim::test
