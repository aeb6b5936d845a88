// Loads that change during a run, from the scenario to the figures.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/cluster/run_policy.h"
#include "sim/scenario/new_scenario.h"
#include "tests/support/small_scenario.h"

namespace epsim {
namespace {

const std::string kPlan = "kind: zipf, exponent: 0.2", kFirst = kPlan + ", variation: none",
                  kThen = "kind: imbalance, pattern: hot_rank, gpus: 16, factor: 5";
const std::string kSwitchAt = "1s";  // of about 2 s

Scenario with(const std::string& loads, const std::string& policy = "base") {
  return test::small({"loads=" + loads, "plan_loads={" + kPlan + "}", "policy=" + policy});
}

// When each step begins.
class Starts final : public StepRecorder {
 public:
  void begin_step(const StepStart& s) override { at.push_back(s.start); }
  void span(const StepSpan&) override {}
  void exchange(const StepExchange&) override {}
  void end_step(Ticks, const StepCost&) override {}
  std::vector<Ticks> at;
};

RunResult run(const Scenario& scenario, StepRecorder* recorder = nullptr) {
  RunControl control;
  control.recorder = recorder;
  return run_policy(scenario, scenario.policies.front(), control);
}

const std::string kBoth = "{windows: [{" + kFirst + ", for: " + kSwitchAt + "}, {" + kThen + ", for: 1h}]}";

}  // namespace

TEST_CASE("tokens that tell which experts go together: those of the loads, else those that were planned from") {
  const std::string model = "{kind: model, preset: olmoe, steps: 2, affinity_tokens: ";
  const auto sharing = [&](int run, int plan, const std::string& more) {
    const Scenario s = test::small(
        {"loads=" + model.substr(0, model.find(", steps")) + ", affinity_tokens: " + std::to_string(run) + "}",
         "plan_loads=" + model + std::to_string(plan) + "}", "requests.count=2", more});
    return run_policy(s, s.policies.front(), {}).row_sharing;
  };
  const std::string known = "which experts serve the same tokens is known from ";
  CHECK(sharing(300, 200, "policy=base") == known + "300 tokens of loads");
  CHECK(sharing(0, 200, "policy=base") == known + "200 tokens of plan_loads, as loads have no tokens");
  CHECK(sharing(0, 0, "policy=base").empty());
  CHECK(sharing(300, 0, "dispatch.dedup=none").empty());  // every (token, expert) pair is a row
  CHECK(sharing(300, 0, "policy=lina").find("independently") != std::string::npos);
}

TEST_CASE("a planning window keeps its steps for policies that plan from them") {
  const std::string model = "{kind: model, preset: olmoe, steps: 3, tokens: 64, sources: 2";
  const auto steps = [&](const std::string& policy, const std::string& more = "",
                         const std::string& setting = "seed=1") {
    const Scenario s = test::small({"loads=" + model.substr(0, model.find(", steps")) + "}",
                                    "plan_loads=" + model + more + "}", "policy=" + policy, setting});
    CHECK(s.run_window.batches() == 0);
    return s.plan_window.batches();
  };
  CHECK(steps("base") == 0);
  CHECK(steps("craft") == 3);
  CHECK(steps("{kind: flashlb, num_redundant_experts: 16}") == 3);
  CHECK(steps("mine", "", "policies.mine={kind: craft}") == 3);
  CHECK(steps("craft:kv_free") == 3);
  CHECK(steps("{kind: lplb, home: craft}") == 3);
  CHECK(steps("mine", "", "policies.mine={kind: lplb, home: craft}") == 3);
  CHECK(steps("mine:home_kv_free", "", "policies.mine={kind: lplb, home: craft}") == 3);
  CHECK(steps("craft", "", "policies.craft={kind: eplb}") == 0);
  CHECK_THROWS_AS(steps("mine", "", "policies.mine={kind: lplb, home: mine}"), InputError);  // names itself
  CHECK(steps("craft", ", batches: false") == 0);
  CHECK(steps("base", ", batches: true") == 3);
}

TEST_CASE("a policy that plans from steps is told of a window that has lost them") {
  const auto told = [](const std::string& policy, const std::string& plan) {
    const Scenario s = test::small({"policy=" + policy, "plan_loads=" + plan});
    return std::ranges::any_of(s.warnings, [](const auto& one) { return one.starts_with("plan_loads: "); });
  };
  const std::string model = "kind: model, preset: olmoe, steps: 2", part = "{" + model + ", for: 1h}";
  CHECK_FALSE(told("craft", "{" + model + "}"));
  CHECK(told("craft", "{" + model + ", batches: false}"));
  CHECK(told("craft", "{windows: [" + part + ", " + part + "]}"));
  CHECK_FALSE(told("base", "{windows: [" + part + ", " + part + "]}"));
  CHECK_FALSE(told("craft", "{kind: uniform}"));  // which has none to lose
}

TEST_CASE("an instance that no request comes to is told") {
  const std::string sessions =
      "requests={kind: sessions, session_rate: 1/s, count: 30, turns: 2, think_time: 1s, system_tokens: 200, "
      "max_context: 512, input_tokens: 32, output_tokens: 4}";
  const auto told = [&](const std::string& router) {
    const Scenario s = test::small({sessions, "deployment={instances: 2, router: " + router + "}"});
    const std::vector<std::string> all = run_policy(s, s.policies.front(), {}).warnings;
    return std::ranges::any_of(
        all, [](const auto& one) { return one.find("1 of 2 instances served no request") != one.npos; });
  };
  CHECK(told("cache_aware"));
  CHECK_FALSE(told("round_robin"));
}

TEST_CASE("load windows: before and after the switch, balancedness is that of each window alone") {
  const RunResult first = run(with("{" + kFirst + "}")), then = run(with("{" + kThen + "}"));
  Starts starts;
  const RunResult both = run(with(kBoth), &starts);
  const LayerSeries &series = both.detail.balancedness, &a = first.detail.balancedness, &b = then.detail.balancedness;
  int before = 0, after = 0;
  for (int c = 0; c < series.columns(); ++c) {
    const auto from = static_cast<std::size_t>(series.first_step(c)),
               last = from + static_cast<std::size_t>(series.steps(c)) - 1;
    const bool early = starts.at[last] < to_ticks(1_s), late = starts.at[from] >= to_ticks(1_s);
    for (int l = 0; l < series.layers() && early != late; ++l) {
      // Without variation every step of a window has the same.
      CHECK(series.mean(c, l) == doctest::Approx((early ? a : b).mean(0, l)).epsilon(1e-5));
    }
    before += early ? 1 : 0;
    after += late ? 1 : 0;
  }
  CHECK(before >= 3);
  CHECK(after >= 3);
  CHECK(a.mean(0, 0) > b.mean(0, 0) + 0.05);  // the windows differ
}

TEST_CASE("load windows: a policy that plans again is balanced after the change, one that never does is not") {
  const auto last_balancedness = [](const std::string& rule) {
    const LayerSeries series =
        run(with(kBoth, "{kind: eplb, num_redundant_experts: 16, rebalance: {" + rule + ", planning_time: 1us}}"))
            .detail.balancedness;
    return series.mean(series.columns() - 1, 0);
  };
  CHECK(last_balancedness("rule: every, steps: 5, window: 5") > last_balancedness("rule: never") + 0.1);
}

TEST_CASE("load windows: one window is the same as its source alone") {
  CHECK(run(with("{windows: [{" + kFirst + ", for: 1s}]}")).fingerprint == run(with("{" + kFirst + "}")).fingerprint);
}

TEST_CASE("the loads of a new scenario are no more skewed than experts / top-k allows") {
  const auto skew_of = [](int experts, int top_k, double times) {
    MoeSpec model;
    model.experts = experts;
    model.top_k = top_k;
    const Skew out = init_skew(model, times);
    return std::pair(out.low, out.high);
  };
  CHECK(skew_of(256, 8, 1) == std::pair(1.5, 4.0));
  CHECK(skew_of(256, 8, 1.5) == std::pair(1.75, 5.5));
  CHECK(skew_of(8, 2, 1.5) == std::pair(1.75, 4.0));  // Mixtral
  CHECK(skew_of(8, 3, 1) == std::pair(1.5, 2.66));
  CHECK(skew_of(4, 4, 1) == std::pair(1.0, 1.0));
}

}  // namespace epsim
