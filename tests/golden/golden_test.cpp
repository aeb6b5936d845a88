// Runs the cases of cases.yaml and compares what they give with expected.txt, line by line. With EPSIM_UPDATE_GOLDEN=1
// it writes that file instead.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "sim/cluster/run_policy.h"
#include "sim/core/files.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/goodput.h"
#include "tests/support/paths.h"

namespace epsim::test {
namespace {

struct Case {
  std::string name;
  std::vector<std::string> settings, policies;
};

std::filesystem::path golden(const char* file) { return source_dir() / "tests/golden" / file; }

std::vector<Case> read_cases() {
  const Config config = Config::from_file(golden("cases.yaml"));
  ConfigReader root = config.root();
  std::vector<Case> out;
  for (ConfigReader& in : root.list_of_sections("cases")) {
    out.push_back({in.required<std::string>("name"),
                   in.maybe<std::vector<std::string>>("set").value_or(std::vector<std::string>{}),
                   in.required<std::vector<std::string>>("policies")});
  }
  root.finish();
  return out;
}

Scenario scenario_with(const std::vector<std::string>& settings, const std::vector<std::string>& policies) {
  Config config = Config::from_file(golden("base.yaml"));
  for (const std::string& setting : settings) {
    config.set(setting);
  }
  return read_scenario(config, policies);
}

std::string line_of(const std::string& name, const std::string& policy, const RunResult& r) {
  return fmt::format(
      "{} {} {} steps={} replayed={} completed={} failed={} retractions={} hit={} end_s={:.9g} ttft_s={:.9g} "
      "tpot_s={:.9g} imbalance_s={:.9g} moved={}",
      name, policy, r.fingerprint, r.steps, r.replayed_steps, r.completed, r.failed, r.kv.retractions, r.kv.hit_tokens,
      to_seconds(r.end).count(), r.latency.ttft_s.mean, r.latency.tpot_s.mean, r.time.straggler.count(),
      r.rebalance.sum().moved_copies);
}

std::vector<std::string> lines_of(const Case& c) {
  const Scenario scenario = scenario_with(c.settings, c.policies);
  std::vector<std::string> out;
  for (const PolicyChoice& policy : scenario.policies) {
    out.push_back(line_of(c.name, policy.label, run_policy(scenario, policy, {})));
  }
  return out;
}

std::vector<std::string> goodput_lines() {
  const std::vector<Scenario> by_seed{scenario_with({"requests.count=1500"}, {"base", "eplb"}),
                                      scenario_with({"requests.count=1500", "seed=4"}, {"base", "eplb"})};
  GoodputOptions options;
  options.tolerance = 0.1;
  options.min_requests_ratio = 4;
  options.sensitivity = {};
  const RunControl control;
  std::vector<std::string> out;
  for (const GoodputSearch& s : search_all(targets_of(by_seed, control), options, {})) {
    out.push_back(fmt::format("goodput {} seed={} knee={:.9g} saturation={:.9g} idle_ttft_s={:.9g} probes={}", s.policy,
                              s.seed, s.knee.rate, s.saturation, s.idle_ttft_s, s.curve.size()));
  }
  return out;
}

std::vector<std::string> lines_of_file(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) {
    out.push_back(line);
  }
  return out;
}

TEST_CASE("every path gives the figures that it gave before") {
  const std::vector<Case> cases = read_cases();
  REQUIRE(cases.size() >= 24);
  std::vector<std::vector<std::string>> by_case(cases.size());
  tbb::parallel_for(std::size_t{0}, cases.size(), [&](std::size_t i) {
    try {
      by_case[i] = lines_of(cases[i]);
    } catch (const std::exception& error) {
      FAIL_CHECK(cases[i].name << ": " << std::string(error.what()));
    }
  });
  std::vector<std::string> actual;
  for (const auto& lines : by_case) {
    actual.insert(actual.end(), lines.begin(), lines.end());
  }
  for (const std::string& line : goodput_lines()) {
    actual.push_back(line);
  }
  if (std::getenv("EPSIM_UPDATE_GOLDEN") != nullptr) {
    std::ofstream out(golden("expected.txt"));
    for (const std::string& line : actual) {
      out << line << "\n";
    }
  }
  const std::vector<std::string> expected = lines_of_file(golden("expected.txt"));
  CHECK(actual.size() == expected.size());
  for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    CHECK(actual[i] == expected[i]);
  }
}

}  // namespace
}  // namespace epsim::test
