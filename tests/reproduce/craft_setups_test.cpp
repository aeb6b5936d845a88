// The setups of experiments/craft are CRAFT's (arXiv 2603.28768, Sec. 5.1).
#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>

#include "sim/cluster/run_policy.h"
#include "sim/reproduce/gather.h"
#include "sim/study/load_point.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

const PaperStudy& craft_study() {
  static const PaperStudy read = read_paper_study(test::source_dir() / "experiments/craft/claims.yaml");
  return read;
}

Scenario craft_scenario(const std::string& setup, std::vector<std::string> overrides, const std::string& policy) {
  GatherOptions options;
  options.overrides = std::move(overrides);
  return scenario_of(craft_study(), setup, options, {policy});
}

// Planning from few batches: the number of copies does not depend on it.
const std::vector<std::string> kSmall{"plan_loads.steps=4", "loads.steps=2", "requests.count=10"};
// The other reading of its memory: 59.8 GiB less 1.26 GiB a node, for all setups (README.md).
const std::vector<std::string> kOneRule{"memory.static_fraction=0.75553", "memory.reserve_per_node=1.26GiB"};

std::vector<std::string> with(std::vector<std::string> first, const std::vector<std::string>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

TEST_CASE("names say model, workload and nodes") {
  CHECK(craft_study().setups.size() == 14);
  for (const std::string name : {"da8", "ke6", "kl12"}) {  // one of each size; all are alike but for the preset
    CAPTURE(name);
    const Scenario s = craft_scenario(name, kSmall, "base");
    CHECK(s.name == "craft-" + name);
    CHECK(s.cluster.nodes == std::stoi(name.substr(2)));
    CHECK(s.model.experts == (name[0] == 'k' ? 384 : 256));
    CHECK(s.parallelism.dp_ranks() == s.cluster.nodes);  // one DP rank per node
    CHECK(s.serving.token_budget == 4096);
    CHECK(s.requests.requests.front().input_tokens == 4096);
    CHECK(s.requests.requests.front().output_tokens == 256);
  }
}

TEST_CASE("CRAFT, C32: 3000 profiling batches, drawn apart from those of the run") {
  Config config = Config::from_file(craft_study().setup("de8").scenario);
  ConfigReader plan = config.root().section("plan_loads");
  CHECK(plan.required<std::int64_t>("steps") == 3000);
  CHECK(plan.required<bool>("batches"));
  const Scenario s = craft_scenario("de8", kSmall, "base");
  CHECK(s.plan_window.layer(0)[0] / s.plan_window.total(0) != s.run_window.layer(0)[0] / s.run_window.total(0));
}

// The interval of a mean over setups takes them for independent: no seed of one is a seed of another, for as many seeds
// as files leave room for.
TEST_CASE("setups are drawn apart") {
  std::set<std::uint64_t> taken;
  for (const PaperSetup& setup : craft_study().setups) {
    const Scenario s =
        craft_scenario(setup.name, {"loads={kind: uniform}", "plan_loads={kind: uniform}", "requests.count=1"}, "base");
    for (std::uint64_t k = 0; k < 10; ++k) {
      CAPTURE(setup.name);
      CHECK(taken.insert(static_cast<std::uint64_t>(s.seed) + k).second);
    }
  }
}

// acceptance of the KV arithmetic: KV pool = 59.8 GiB - 1.26 N - weights (24.70 GiB on D*8 with everything split by 8),
// so 25.02 GiB; EPLB's 58 copies of 84 MiB take 4.758 GiB of it: 19.0 %.
TEST_CASE("memory gives the KV losses that the paper states") {
  const auto lost = [](const char* name, const std::vector<std::string>& overrides, const char* policy) {
    const Scenario s = craft_scenario(name, overrides, policy);
    return prepare_run(s, s.policies.front()).last().memory.extras_loss;
  };
  CHECK(lost("de8", with(kSmall, kOneRule), "eplb") == doctest::Approx(0.190).epsilon(0.005));
  CHECK(lost("ke12", with(kSmall, kOneRule), "eplb") == doctest::Approx(0.240).epsilon(0.005));
  CHECK(lost("ke6", with(kSmall, kOneRule), "eplb") == doctest::Approx(0.587).epsilon(0.005));
  CHECK(lost("ke6", kSmall, "eplb") == doctest::Approx(0.75).epsilon(0.01));
  CHECK(lost("ke6", kSmall, "cra8") == doctest::Approx(0.10).epsilon(0.01));
}

// Completions per second of EPLB on K*6 when all requests come at once.
double saturation_of_eplb(const std::vector<std::string>& more) {
  const Scenario s = craft_scenario(
      "ke6", with(with({"plan_loads.steps=20", "loads.steps=2", "requests.count=300"}, kOneRule), more), "eplb");
  return saturation_rate(run_prepared(s, prepare_run(s, s.policies.front()), as_burst(s.requests), {}), {});
}

TEST_CASE("on 6 nodes a fifth of EPLB's KV pool is worth more than a fifth of the links' speed") {
  const double plain = saturation_of_eplb({});
  // 8.36 GiB less 60 copies of 84 MiB leave 3.44 GiB, a fifth of which is 0.69 GiB.
  const double less_kv = saturation_of_eplb({"memory.reserve=0.69GiB"});
  const double less_wire = saturation_of_eplb({"faults=[{at: 0s, instance: 0, link_speed: 0.8}]"});
  CAPTURE(plain);
  CHECK(less_kv < less_wire);
  CHECK(less_wire < plain);
}

}  // namespace
}  // namespace epsim
