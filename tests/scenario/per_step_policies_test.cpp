// Policies that act in every step: their keys, their memory as every verb tells it, what they do in the first layer, where
// their weights come from, and what a run says of one that does nothing.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "policies/registry.h"
#include "sim/cluster/run_policy.h"
#include "sim/scenario/engine_defaults.h"
#include "sim/scenario/read_scenario.h"
#include "sim/scenario/scenario_keys.h"
#include "sim/step/step_balance.h"
#include "sim/verbs/balance.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

// One prompt in chunks of 2048 tokens, so that every policy has the same steps.
constexpr const char* kPerStep =
    "name: per-step\nseed: 2\ncluster: {node: DGX-H100, nodes: 1}\nmodel: {architecture: mixtral-8x7b}\n"
    "dispatch: {transport: nccl_p2p}\nmemory: {static_fraction: 0.8}\nserving: {chunked_prefill_size: 2048}\n"
    "requests: {kind: constant, rate: 1/s, count: 1, input_tokens: 8192, output_tokens: 2}\n"
    "loads: {kind: zipf, exponent: 1.0}\nplan_loads: {kind: zipf, exponent: 1.0}\n";

Scenario per_step(const std::vector<std::string>& labels, const std::vector<std::string>& settings = {}) {
  Config config = Config::from_text(kPerStep, "per-step.yaml");
  config.set(settings);
  return read_scenario(config, labels);
}

RunResult served(const std::string& label, const std::vector<std::string>& settings = {}) {
  const Scenario s = per_step({label}, settings);
  return run_policy(s, s.policies.front(), {});
}

double prefetch(const RunResult& run) {
  return run.time.by_part[static_cast<std::size_t>(LayerPart::kPrefetch)].count();
}

std::string why_refused(const std::string& label, const std::string& setting) {
  try {
    per_step({label}, {setting});
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a key that a policy does not read is refused, and is not among its keys") {
  for (const StepPolicyEntry& entry : step_policies()) {
    CAPTURE(entry.name);
    const std::string label(entry.name);
    const auto refused = [&](const std::string& key, const std::string& value) {
      const bool listed = std::any_of(scenario_keys().begin(), scenario_keys().end(), [&](const ScenarioKey& row) {
        return row.path == "policies.*." + key && has_variant(row, label);
      });
      const std::string error = why_refused(label, fmt::format("policies.{}.{}={}", label, key, value));
      CHECK(error.empty() == listed);
      return !listed;
    };
    const bool predicts = label == "libra" || label == "lina";
    CHECK(refused("accuracy", "0.5") == !predicts);
    CHECK(refused("distortion", "0.5") == !predicts);
    CHECK(refused("copy_efficiency", "0.5") == (label == "lplb" || label == "waterfill"));
    CHECK(refused("fetch_from", "gpu") == (label != "harmoeny"));
    CHECK_FALSE(refused("planning_time", "20us"));
    CHECK_FALSE(why_refused(label, fmt::format("policies.{}.replica_choice={{kind: even}}", label)).empty());
    // What uses predictions reads how good they are.
    const Scenario s = per_step({label});
    CHECK((!s.policies.front().per_step->profile().uses_prediction || entry.predicts));
  }
}

TEST_CASE("buffers are KV room lost, and run, plan and screening tell the same share") {
  const Scenario s = per_step({"contiguous", "libra", "lina", "ultraep", "moonep", "echo", "harmoeny"});
  const double all = prepare_run(s, s.policies.front()).last().memory.kv_pool.count();
  const std::vector<BalanceRow> rows = balance_of(s);
  // One expert of a layer a GPU, of 3 x 4096 x 14336 x 2 B. libra: two sets, and lina one, of it and the other seven, as
  // eight more than its own would be nine of a model that has eight; ultraep two slots, moonep as many as own experts,
  // echo one.
  const double expert = 3.0 * 4096 * 14336 * 2;
  const std::vector<double> experts{0, 16, 8, 2, 1, 1, 0};
  for (std::size_t p = 0; p < s.policies.size(); ++p) {
    CAPTURE(s.policies[p].label);
    const double lost = experts[p] * expert / all;
    CHECK(prepare_run(s, s.policies[p]).last().memory.extras_loss == doctest::Approx(lost));
    CHECK(rows[p].memory.extras_loss == doctest::Approx(lost));
    const RunResult result = run_policy(s, s.policies[p], {});
    CHECK(result.memory.lost_to_extras == doctest::Approx(lost));
    CHECK(result.memory.buffers.count() == doctest::Approx(experts[p] * expert));
    CHECK(result.memory.kv_pool.count() == doctest::Approx(all * (1 - lost)));
  }
}

TEST_CASE("where prefill and decode are apart, each pool is screened as it runs the policy") {
  const std::vector<std::string> apart{
      "deployment={prefill: {instances: 1, nodes: 1}, decode: {instances: 2, nodes: 1}}",
      "policies.both={prefill: libra, decode: eplb}"};
  const std::vector<BalanceRow> rows = balance_of(per_step({"libra", "both"}, apart));
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].pool == "prefill");
  CHECK(rows[0].per_step);
  CHECK(rows[1].pool == "decode");
  CHECK_FALSE(rows[1].per_step);  // Libra acts in steps with prompts
  CHECK(rows[2].policy == "both");
  CHECK(rows[2].scored.mean == rows[0].scored.mean);
  CHECK(rows[2].memory.extras_loss == rows[0].memory.extras_loss);
  CHECK(rows[3].copies > 0);
  const std::vector<BalanceRow> alone = balance_of(per_step({"libra"}));
  CHECK(rows[0].scored.mean == alone[0].scored.mean);
}

TEST_CASE("without their KV room, buffers and reserves are what they are") {
  const Scenario s = per_step({"contiguous", "libra:dispatch_kv_free"});
  const RunResult base = run_policy(s, s.policies[0], {}), free = run_policy(s, s.policies[1], {});
  CHECK(free.memory.lost_to_extras == doctest::Approx(0));
  for (std::size_t i = 0; i < base.memory.items.size(); ++i) {
    CAPTURE(base.memory.items[i].name);
    CHECK(free.memory.items[i].size.count() == doctest::Approx(base.memory.items[i].size.count()));
  }
}

TEST_CASE("a rebalance's buffer is KV room lost") {
  // Experts in order, again and again: the buffer holds the one expert that a GPU has in a layer.
  const std::vector<std::string> settings{"policies.again={kind: base, rebalance: {rule: every, steps: 1000}}"};
  const Scenario s = per_step({"base", "again"}, settings);
  const MemoryBreakdown once = prepare_run(s, s.policies[0]).last().memory,
                        again = prepare_run(s, s.policies[1]).last().memory;
  CHECK(again.extras_loss == doctest::Approx(3.0 * 4096 * 14336 * 2 / once.kv_pool.count()));
}

TEST_CASE("nothing is copied ahead into the first MoE layer, of which nothing is predicted") {
  const RunResult home = served("harmoeny", {"policies.harmoeny.min_tokens=1000000000"});
  for (const std::string label : {"lina", "libra"}) {
    CAPTURE(label);
    const RunResult ahead = served(label);
    REQUIRE(ahead.steps == home.steps);
    const auto same = [&](std::size_t layer) {
      const std::size_t gpus = 8;
      for (std::size_t g = layer * gpus; g < (layer + 1) * gpus; ++g) {
        if (ahead.detail.gpu_load[g] != home.detail.gpu_load[g]) {
          return false;
        }
      }
      return true;
    };
    CHECK(same(0));  // each token at its expert's home
    CHECK_FALSE(same(1));
  }
  // Nor do screened steps know more: with every expert everywhere from layer 1 on, Lina splits each expert evenly there.
  const Scenario s = per_step({"lina"}, {"policies.lina.n_extra=8"});
  const StepBalance lina = step_balance(s, pools_of(s).front(), s.policies.front());
  CHECK(lina.worst_layer == 0);
  // All other layers are even but for remainders, and layers have the same popularity.
  CHECK(lina.worst == doctest::Approx(lina.home).epsilon(0.05));
}

TEST_CASE("experts fetched from the host take each GPU's own link, and no port") {
  // At 1 MB/s nothing hides a copy: every layer waits for the GPU that fetches most, whole experts over rate x efficiency.
  const auto at = [](double rate) {
    Scenario s = per_step({"harmoeny"}, {"policies.harmoeny.min_tokens=1"});
    s.cluster.node.gpu.host_rate = BytesPerSecond(rate);
    for (InstancePool& pool : s.deployment.pools) {
      pool.cluster.node.gpu.host_rate = BytesPerSecond(rate);
    }
    return run_policy(s, s.policies.front(), {});
  };
  const RunResult slow = at(1e6), half = at(0.5e6);
  const double one = 3.0 * 4096 * 14336 * 2 / (1e6 * 380 / 450), experts = prefetch(slow) / one;
  CHECK(experts > 0.5);
  CHECK(experts == doctest::Approx(std::round(experts)).epsilon(1e-4));
  CHECK(prefetch(half) / prefetch(slow) == doctest::Approx(2).epsilon(1e-4));
  // From the GPU that has the expert, the same copies cross ports.
  const auto sent = [](const std::string& from) {
    return served("harmoeny", {"policies.harmoeny.min_tokens=1", "policies.harmoeny.fetch_from=" + from})
        .conservation.bytes_sent;
  };
  const double experts_sent = (sent("gpu") - sent("host")) / (3.0 * 4096 * 14336 * 2);
  CHECK(experts_sent > 0.5);
  CHECK(experts_sent == doctest::Approx(std::round(experts_sent)).epsilon(1e-6));
}

TEST_CASE("a link to the host that nobody knows is an error, unless it is not needed") {
  const auto prepared = [](const std::string& from) {
    const Scenario s =
        per_step({"harmoeny"}, {"cluster.node=p6-b300.48xlarge", "policies.harmoeny.fetch_from=" + from});
    return prepare_run(s, s.policies.front());
  };
  CHECK_THROWS_WITH_AS(prepared("host"), doctest::Contains("host_rate"), InputError);
  CHECK_NOTHROW(prepared("gpu"));
}

TEST_CASE("a rebalance that is not the engine's own is named") {
  const auto warned = [](const char* engine) {
    const Scenario s = per_step({"moved"}, {std::string("serving={engine: ") + engine + "}",
                                            "policies.moved={kind: eplb, rebalance: {rule: every}}"});
    return policy_warnings(s, s.policies.front());
  };
  REQUIRE(warned("trtllm").size() == 1);
  test::check_contains(warned("trtllm").front(), {"'moved'", "the hosts' memory"});
  CHECK(warned("sglang").empty());
}

// FasterMoE's code begins with the constants of a V100 and a model 2048 wide.
TEST_CASE("a policy that reckons with another model than the run's is named") {
  const auto warned = [](const std::vector<std::string>& more) {
    const Scenario s = per_step({"fastermoe"}, more);
    return policy_warnings(s, s.policies.front());
  };
  const std::vector<std::string> told = warned({});
  REQUIRE(told.size() == 1);
  test::check_contains(told.front(), {"'fastermoe'", "a model 2048 wide", "policies.fastermoe"});
  const int hidden = per_step({"fastermoe"}).model.hidden;
  CHECK(warned({fmt::format("policies.fastermoe.hidden={}", hidden)}).empty());
}

TEST_CASE("a policy that never acts is named in its run's warnings, with the key where one decides") {
  for (const char* label : {"ultraep", "moonep", "echo"}) {
    CAPTURE(label);
    // Chunks of 2048 tokens on the 8 GPUs of the one rank are known to be too small before anything runs.
    const Scenario small = per_step({label});
    const std::vector<std::string> known = policy_warnings(small, small.policies.front());
    REQUIRE(known.size() == 1);
    test::check_contains(known.front(), {label, "never acts", "`prefill_tokens`", "1024", "at most 256 a GPU"});
    CHECK(run_policy(small, small.policies.front(), {}).warnings == known);
    CHECK(served(label, {fmt::format("policies.{}.prefill_tokens=256", label)}).warnings.empty());
    // Chunks of 16384 would do, but the one prompt has 8192 tokens less one.
    const std::vector<std::string> large{"serving.chunked_prefill_size=16384", "requests.input_tokens=8191"};
    const Scenario s = per_step({label}, large);
    CHECK(policy_warnings(s, s.policies.front()).empty());
    const RunResult idle = run_policy(s, s.policies.front(), {});
    REQUIRE(idle.warnings.size() == 1);
    test::check_contains(idle.warnings.front(), {label, "did nothing", "`prefill_tokens`", "the largest had 1023"});
  }
  // Without a key that leaves steps alone, there may be nothing to do.
  const RunResult inert = served("harmoeny", {"policies.harmoeny.min_tokens=1000000000"});
  REQUIRE(inert.warnings.size() == 1);
  test::check_contains(inert.warnings.front(), {"harmoeny", "copied no expert"});
  const RunResult single = served("lplb");  // experts in order, each on one GPU
  REQUIRE(single.warnings.size() == 1);
  test::check_contains(single.warnings.front(), {"lplb", "its `home` has no copies to choose between"});
  for (const std::string label : {"contiguous", "harmoeny", "libra", "lina"}) {
    CAPTURE(label);
    CHECK(served(label).warnings.empty());
  }
}

TEST_CASE("copies wait for slow links as tokens do") {
  const auto waits = [](const char* speed) {
    return prefetch(served("harmoeny", {"policies.harmoeny.fetch_from=gpu",
                                        std::string("faults=[{at: 0s, node: 0, link_speed: ") + speed + "}]"}));
  };
  const double fast = waits("0.5"), slow = waits("0.05");
  CAPTURE(fast);
  CAPTURE(slow);
  CHECK(fast > 0);
  CHECK(slow > 8 * fast);  // ten times as long on the wire, less what other work hides
}

TEST_CASE("a run says on which counts it was scored") {
  CHECK(served("contiguous").whole_counts);  // its loads are drawn
  CHECK_FALSE(served("contiguous", {"loads.variation=none"}).whole_counts);
  CHECK(served("libra", {"loads.variation=none"}).whole_counts);
}

}  // namespace epsim
