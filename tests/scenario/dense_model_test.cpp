// A model without experts is a model all of whose layers have a dense FFN: nothing is placed, nothing is sent to experts.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "models/catalogue/model_catalogue.h"
#include "sim/cluster/run_policy.h"
#include "sim/core/error.h"
#include "sim/scenario/new_scenario.h"
#include "sim/scenario/read_scenario.h"
#include "sim/verbs/balance.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

const std::string kDense =
    "name: dense\nmodel: {architecture: Llama-3.1-8B}\ncluster: {node: DGX-H100, nodes: 1, gpus_per_node: 2}\n"
    "serving: {engine: vllm_0_14}\n"
    "requests: {kind: constant, rate: 100/s, count: 40, input_tokens: 300, output_tokens: 10}\n";

std::string error_with(const std::string& more) {
  try {
    read_document(kDense + more);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

RunResult run(const std::string& more) {
  const Scenario s = read_document(kDense + more);
  return run_policy(s, s.policies.front(), {});
}

}  // namespace

TEST_CASE("a dense model needs no loads and has one policy") {
  const Scenario s = read_document(kDense);
  CHECK(s.model.dense());
  CHECK(s.model.moe_layers() == 0);
  CHECK(s.model.dense_layers() == 32);
  CHECK(s.plan_window.layers() == 0);
  test::check_contains(error_with("loads: {kind: uniform}\n"), {"`loads`", "has no experts"});
  test::check_contains(error_with("plan_loads: {kind: uniform}\n"), {"`plan_loads`"});
  test::check_contains(error_with("policy: eplb\n"), {"eplb", "its one policy is 'base'"});
  test::check_contains(error_with("policies: {mine: {kind: base, rebalance: {rule: every}}}\npolicy: mine\n"),
                       {"mine"});
  test::check_contains(error_with("policy: lina\n"), {"lina"});
}

TEST_CASE("what only layers with experts have is refused") {
  test::check_contains(error_with("parallelism: {attention_tp: 1}\n"),
                       {"set attention_tp 2, all of its GPUs", "deployment.instances"});
  test::check_contains(error_with("execution: {overlap: two_batch}\n"), {"execution.overlap"});
  test::check_contains(error_with("dispatch: {transport: deepep_normal}\n"), {"dispatch.transport", "allreduce"});
  CHECK(read_document(kDense + "dispatch: {transport: allreduce}\n").model.dense());
  for (const char* type : {"int4", "mxfp4"}) {
    const std::string model = std::string("model: {architecture: Llama-3.1-8B, dtype: ") + type + "}\n";
    std::string text = kDense;
    text.replace(text.find("model:"), text.find("cluster:") - text.find("model:"), model);
    CHECK_THROWS_AS(read_document(text), InputError);
  }
}

TEST_CASE("a dense model runs: every request ends, and nothing is routed") {
  const RunResult closed = run("");
  CHECK(closed.requests.size() == 40);
  CHECK(closed.latency.e2e_s.count == 40);
  CHECK(closed.conservation.assignments_routed == 0);
  const RunResult events = run("execution: {mode: event}\n");
  CHECK(events.latency.e2e_s.mean == doctest::Approx(closed.latency.e2e_s.mean).epsilon(1e-6));
  for (const char* network : {"max_min", "two_tier"}) {
    CHECK(run(std::string("network: {model: ") + network + "}\n").latency.e2e_s.mean == closed.latency.e2e_s.mean);
  }
  // Each of two instances serves half of the requests, with fewer in a step.
  const RunResult two = run("deployment: {instances: 2}\n");
  CHECK(two.latency.e2e_s.count == 40);
  CHECK(two.latency.tpot_s.mean < closed.latency.tpot_s.mean);
  CHECK(run("deployment: {prefill: {instances: 1}, decode: {instances: 1}}\n").latency.e2e_s.count == 40);
  // A pool of one GPU: its rank takes all of it without a say.
  CHECK(run("deployment: {prefill: {instances: 2, gpus_per_node: 1}, decode: {}}\n").latency.e2e_s.count == 40);
  test::check_contains(error_with("deployment: {prefill: {attention_tp: 1}, decode: {}}\n"),
                       {"deployment.prefill.attention_tp", "set gpus_per_node"});
}

// One draft at most: the layer that proposes it, its head and the input's product come on top, and every second step falls
// away where all drafts are accepted.
TEST_CASE("a dense model's drafts are proposed by a dense layer") {
  const double plain = run("").latency.tpot_s.mean;
  const auto text = [](double acceptance) {
    return fmt::format(
        "requests: {{kind: constant, rate: 100/s, count: 40, input_tokens: 300, output_tokens: 10}}\n"
        "serving: {{engine: vllm_0_14, speculative: {{draft_tokens: 1, acceptance: {}}}}}\n",
        acceptance);
  };
  const std::string rest = kDense.substr(0, kDense.find("serving:"));
  const auto tpot = [&](double acceptance) {
    const Scenario s = read_document(rest + text(acceptance));
    return run_policy(s, s.policies.front(), {}).latency.tpot_s.mean;
  };
  CHECK(tpot(0) > plain);
  CHECK(tpot(0) < 1.2 * plain);  // one layer more than 32, and the head again
  CHECK(tpot(1) < 0.65 * plain);
}

// A step of one token: two all-reduces in each of 32 layers wait for the slowest port, kernels for the slowest GPU.
TEST_CASE("slow ports and slow GPUs of a dense model") {
  const auto decode = [](const std::string& fault) {
    std::string text = kDense;
    text.replace(text.find("count: 40"), 9, "count: 1");
    const Scenario s = read_document(text + "faults: [" + fault + "]\n");
    return run_policy(s, s.policies.front(), {}).latency.tpot_s.mean;
  };
  const double plain = decode(""), slow_port = decode("{at: 0s, gpu: 1, link_speed: 0.5}"),
               slow_gpu = decode("{at: 0s, gpu: 1, speed: 0.5}"),
               both = decode("{at: 0s, gpu: 1, speed: 0.5, link_speed: 0.5}");
  CHECK(slow_port > plain);
  CHECK(slow_gpu > plain);
  CHECK(slow_gpu < 2 * plain);                              // the all-reduces take as long as before
  CHECK(both == doctest::Approx(2 * plain).epsilon(0.02));  // all of a step takes twice as long
  CHECK(slow_port - plain == doctest::Approx(both - slow_gpu).epsilon(0.02));
}

// Weights of a step with one token: 80 layers of 3 x 8192 x 28672 in the FFN and 8192 x (2 x 8192 + 2 x 1024) in attention,
// and the head's 8192 x 32000, in 16 bits: 137 GB over four GPUs of 3.35 TB/s, 10.2 ms. Measured kernels read 70 to 95 % of
// that; two all-reduces of 4 GPUs a layer take 4 to 10 us each.
TEST_CASE("Llama-2-70B on four H100 decodes no faster than its weights are read") {
  const double weights = 2.0 * (80.0 * (3.0 * 8192 * 28672 + 8192.0 * (2 * 8192 + 2 * 1024)) + 8192.0 * 32000);
  const double read_s = weights / 4 / 3.35e12;
  std::string text = kDense;
  text.replace(text.find("Llama-3.1-8B"), 12, "Llama-2-70B");
  text.replace(text.find("gpus_per_node: 2"), 16, "gpus_per_node: 4");
  text.replace(text.find("count: 40"), 9, "count: 1");
  const Scenario s = read_document(text);
  const double tpot = run_policy(s, s.policies.front(), {}).latency.tpot_s.mean;
  CHECK(tpot > read_s);
  CHECK(tpot < read_s / 0.7 + 160 * 10e-6);
}

TEST_CASE("epsim init writes a dense model's instance as one DP rank over its nodes") {
  const Scenario two = read_document(scenario_document(with_dtype({"vllm", "Llama-3.1-70B", "DGX-H100", "", 2})));
  CHECK(two.deployment.single());
  CHECK(two.cluster.gpus() == 16);
  CHECK(two.parallelism.attention_tp == 16);
  NewScenario apart{"sglang", "Llama-3.1-8B", "DGX-H200", ""};
  apart.prefill = 1;
  apart.decode = 2;
  const Scenario pools = read_document(scenario_document(with_dtype(apart)));
  REQUIRE(pools.deployment.pools.size() == 2);
  CHECK(pools.deployment.pools[0].parallelism.attention_tp == 8);
  CHECK(pools.deployment.pools[1].parallelism.attention_tp == 16);
  // 405B in bf16 has 812 GB: no node of eight H100 holds it, two do.
  const Scenario large = read_document(scenario_document({"vllm", "Llama-3.1-405B", "DGX-H100", "bf16", 2}));
  CHECK(prepare_run(large, large.policies.front()).last().memory.kv_pool.count() > 0);
  const Scenario small = read_document(scenario_document({"vllm", "Llama-3.1-405B", "DGX-H100", "bf16", 1}));
  CHECK_THROWS(prepare_run(small, small.policies.front()));
}

}  // namespace epsim
