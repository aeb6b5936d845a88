// Loads that change during a run, from the scenario to the figures.
#include <doctest/doctest.h>

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
