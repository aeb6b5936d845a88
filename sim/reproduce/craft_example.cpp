#include "sim/reproduce/craft_example.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/cluster/run_policy.h"
#include "sim/core/config.h"
#include "sim/report/csv_table.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/job_runner.h"
#include "sim/study/load_point.h"
#include "traces/requests/read_requests.h"

namespace epsim {
namespace {

Config document(const std::string& scenario) { return Config::from_text(scenario, "example run"); }

// Knees under the first seed; none where a policy was not searched.
std::optional<std::array<double, kExamplePolicies.size()>> knees_of(const SetupEvidence& setup) {
  std::array<double, kExamplePolicies.size()> out{};
  for (std::size_t p = 0; p < out.size(); ++p) {
    const auto found = setup.policies.find(kExamplePolicies[p]);
    if (found == setup.policies.end() || found->second.searches.empty()) {
      return std::nullopt;
    }
    out[p] = found->second.searches.front().knee.rate;
  }
  return out;
}

// Requests of which this part can say how many and how fast: all gaps between them are in proportion to 1 / `rate`.
bool has_rate_and_count(ConfigReader requests) {
  const auto kind = requests.required<std::string>("kind");
  return (kind == "poisson" || kind == "constant" || kind == "gamma") && requests.has("count");
}

// Fewer requests, at out.rate. The rate of a scenario is that of the process which they are drawn from; a sample's own
// differs from it by chance, by 2 % with 2500 requests, and a knee is told in the latter.
void set_requests(Config config, CraftExample& out) {
  const std::int64_t all = config.root().section("requests").required<std::int64_t>("count");
  out.requests = std::max<std::int64_t>(2, all / kExamplePart);
  config.set(fmt::format("requests.count={}", out.requests));
  ConfigReader requests = config.root().section("requests");
  const double rate = requests.required<RequestsPerSecond>("rate").count();
  const auto seed = static_cast<Seed>(config.root().optional<std::int64_t>("seed", 0));
  const double drawn = arrival_rate(read_requests(requests, seed));
  config.set(fmt::format("requests.rate={}/s", rate * out.rate / drawn));
  out.scenario = config.resolved();
}

}  // namespace

std::optional<CraftExample> choose_craft_example(const CraftEvidence& evidence) {
  for (const CraftSetup& setup : craft_setups()) {
    const auto found = evidence.find(setup.name);
    const auto knees = found != evidence.end() ? knees_of(found->second) : std::nullopt;
    if (!knees) {
      continue;
    }
    const Config config = document(found->second.resolved);
    if (has_rate_and_count(config.root().section("requests"))) {
      CraftExample out{.setup = std::string(setup.name), .knees = *knees, .scenario = {}};
      out.rate = kNearSaturation * *std::min_element(out.knees.begin(), out.knees.end());
      set_requests(config, out);
      return out;
    }
  }
  return std::nullopt;
}

Scenario craft_example_scenario(const CraftExample& example) {
  return read_scenario(document(example.scenario), {kExamplePolicies.begin(), kExamplePolicies.end()});
}

std::vector<RunResult> run_craft_example(const Scenario& scenario, const std::atomic<bool>& stop, PlanCache* plans) {
  RunControl control;
  control.stop = &stop;
  std::vector<RunResult> out(scenario.policies.size());
  run_jobs(all_jobs(out.size()), {}, [&](std::size_t i, const Abandoned&) {
    out[i] = run_prepared(scenario, prepare_run(scenario, scenario.policies[i], plans), scenario.requests, control);
  });
  if (std::any_of(out.begin(), out.end(), [](const RunResult& run) { return run.interrupted; })) {
    throw StudyInterrupted();
  }
  return out;
}

void write_craft_example_csv(std::ostream& out, const CraftExample& example) {
  CsvTable csv(out, {"setup", "policy", "knee_requests_per_s", "lowest_knee_share", "offered_requests_per_s",
                     "offered_requests"});
  for (std::size_t p = 0; p < example.knees.size(); ++p) {
    csv.text(example.setup).text(kExamplePolicies[p]).number(example.knees[p]).number(kNearSaturation);
    csv.number(example.rate).integer(example.requests).end_row();
  }
}

}  // namespace epsim
