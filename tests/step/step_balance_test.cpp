#include "sim/step/step_balance.h"

#include <doctest/doctest.h>

#include "sim/cluster/run_policy.h"
#include "sim/scenario/read_scenario.h"

using namespace epsim;

namespace {

Scenario one_node() {
  return read_scenario(
      Config::from_text(
          "name: libra\nseed: 2\ncluster: {node: DGX-H200, nodes: 1}\nmodel: {architecture: qwen3-235b-a22b}\n"
          "dispatch: {transport: nccl_p2p}\nmemory: {static_fraction: 0.9}\nserving: {chunked_prefill_size: 8192}\n"
          "requests: {kind: constant, rate: 1/s, count: 1, input_tokens: 8, output_tokens: 1}\n"
          "loads: {kind: skew, low: 2, high: 9, high_share: 0.5}\n"
          "plan_loads: {kind: skew, low: 2, high: 9, high_share: 0.5}\n",
          "balance.yaml"),
      {"libra", "lina", "harmoeny"});
}

// One drawn step under `policy` with other predictions than its own.
StepBalance scored(const Scenario& s, PolicyChoice policy, PredictorOptions predictor) {
  policy.step_run.predictor = predictor;
  return step_balance(s, pools_of(s).front(), policy, 1);
}

}  // namespace

TEST_CASE("with perfect prediction Libra ends within 5 % of balance, with Table 1's accuracy within 10 % (L02)") {
  const Scenario s = one_node();
  CHECK(scored(s, s.policies[0], {.accuracy = 1.0, .distortion = 0.0}).mean >= 1 / 1.05);
  const StepBalance predicted = scored(s, s.policies[0], {.accuracy = 0.87, .distortion = 0.2});
  CHECK(predicted.mean >= 1 / 1.10);
  CHECK(predicted.mean > predicted.home + 0.1);
  CHECK(predicted.most_extra <= 8);
}

TEST_CASE("Lina depends on its prediction; HarMoEny needs none") {
  const Scenario s = one_node();
  const PredictorOptions good{.accuracy = 1.0, .distortion = 0.0}, bad{.accuracy = 0.1, .distortion = 2.0};
  CHECK(scored(s, s.policies[1], bad).mean < scored(s, s.policies[1], good).mean);
  CHECK(scored(s, s.policies[2], bad).mean == scored(s, s.policies[2], good).mean);
}

TEST_CASE("several steps are scored by their mean") {
  const Scenario s = one_node();
  const StepBalance one = step_balance(s, pools_of(s).front(), s.policies[2], 1),
                    three = step_balance(s, pools_of(s).front(), s.policies[2], 3);
  CHECK(three.home == doctest::Approx(one.home).epsilon(0.05));  // the same skew in each step
  CHECK(three.mean == doctest::Approx(one.mean).epsilon(0.05));
  CHECK(three.worst <= three.mean);
  CHECK(three.mean <= 1.0);
}

TEST_CASE("double buffers take their memory") {
  const Scenario s = one_node();
  // 2 sets of 128 / 8 + 8 experts of 36 MiB (3 x 4096 x 1536 x 2 B).
  CHECK(buffer_bytes(s.model, s.cluster.gpus(), *s.policies[0].per_step).count() ==
        doctest::Approx(2 * 24 * 36.0 * 1024 * 1024));
}
