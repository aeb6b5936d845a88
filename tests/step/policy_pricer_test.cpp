#include "sim/step/policy_pricer.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "models/network/make_network.h"
#include "policies/registry.h"
#include "sim/cluster/run_policy.h"
#include "sim/core/error.h"
#include "sim/scenario/read_scenario.h"

using namespace epsim;

namespace {

constexpr const char* kScenario =
    "name: by-step\nseed: 2\ncluster: {node: DGX-H200, nodes: 1}\nmodel: {architecture: olmoe-1b-7b}\n"
    "parallelism: {attention_tp: 2}\ndispatch: {transport: nccl_p2p}\nmemory: {static_fraction: 0.5}\nserving: "
    "{chunked_prefill_size: 2048}\n"
    "requests: {kind: poisson, rate: 200/s, count: 24, input_tokens: 3000, output_tokens: 6}\n"
    "loads: {kind: skew, low: 2, high: 7, high_share: 0.5}\n"
    "plan_loads: {kind: skew, low: 2, high: 7, high_share: 0.5}\n";

const std::vector<std::string> kPricedPolicies{"base",     "eplb",      "libra",          "lina",
                                               "harmoeny", "fastermoe", "least_loaded_ep"};

Scenario scenario(const std::vector<std::string>& settings = {},
                  const std::vector<std::string>& labels = kPricedPolicies) {
  Config config = Config::from_text(kScenario, "by-step.yaml");
  config.set(settings);
  return read_scenario(config, labels);
}

double part(const RunResult& run, LayerPart p) { return run.time.by_part[static_cast<std::size_t>(p)].count(); }

}  // namespace

TEST_CASE("every policy serves the same requests to the end; its accounts close") {
  const Scenario s = scenario();
  double routed = 0;
  for (const PolicyChoice& policy : s.policies) {
    CAPTURE(policy.label);
    const RunResult run = run_policy(s, policy, {});  // throws where assignments or bytes do not add up
    CHECK(run.completed == 24);
    CHECK(run.conservation.assignments_executed == doctest::Approx(run.conservation.assignments_routed).epsilon(1e-6));
    CHECK(run.conservation.bytes_sent == doctest::Approx(run.conservation.bytes_received).epsilon(1e-9));
    CHECK(run.conservation.bytes_sent > 0);
    // Whole prompts, all but the last token of each output, and one that the overlapped schedule decodes in vain:
    // (3000 + 6) x 24 tokens x top-8 x 16 layers.
    routed = 24.0 * 3006 * 8 * 16;
    CHECK(run.conservation.assignments_routed == doctest::Approx(routed).epsilon(1e-9));
    const RunResult again = run_policy(s, policy, {});
    CHECK(again.fingerprint == run.fingerprint);
  }
}

TEST_CASE("who plans after the routing pays for it in every layer, who plans ahead does not") {
  const Scenario s = scenario({"serving.chunked_prefill_size=8192"});
  const auto run = [&](std::size_t i) { return run_policy(s, s.policies[i], {}); };
  const RunResult base = run(0), lina = run(3), harmoeny = run(4);
  CHECK(part(base, LayerPart::kPlanning) == 0);
  CHECK(part(base, LayerPart::kPrefetch) == 0);
  // 16 layers, 50 us and the exchange of ids each, in every step.
  CHECK(part(harmoeny, LayerPart::kPlanning) >= static_cast<double>(harmoeny.steps) * 16 * 50e-6);
  CHECK(part(lina, LayerPart::kPlanning) < part(harmoeny, LayerPart::kPlanning) / 10);
}

TEST_CASE("a linear programme without copies costs its own time and nothing else") {
  const std::vector<std::string> big{"serving.chunked_prefill_size=8192", "policies.lp={kind: lplb, home: base}"};
  const Scenario s = scenario(big, {"base", "lp"});
  const RunResult base = run_policy(s, s.policies[0], {}), lp = run_policy(s, s.policies[1], {});
  CHECK(lp.steps == base.steps);
  // Per layer 100 us and an all-reduce, which is no faster than a collective's latency.
  CHECK(part(lp, LayerPart::kPlanning) >= static_cast<double>(lp.steps) * 16 * 100e-6);
  // The rest is what it was, but for whole tokens against expected ones, and the host, beside which it plans.
  for (const LayerPart same : {LayerPart::kAttention, LayerPart::kExperts}) {
    CHECK(part(lp, same) == doctest::Approx(part(base, same)).epsilon(0.005));
  }
  CHECK(part(lp, LayerPart::kDispatch) == doctest::Approx(part(base, LayerPart::kDispatch)).epsilon(0.002));
  CHECK(lp.time.total > base.time.total);
}

TEST_CASE("a policy that needs all counts waits for an all-reduce of eight bytes an expert in every layer") {
  const Scenario s = scenario({"policies.lp={kind: lplb, home: base, planning_time: 0s}"}, {"lp"});
  const RunResult run = run_policy(s, s.policies[0], {});
  const auto network = make_network(s.cluster, s.network, s.dispatch.network);
  const double counts = network->over_all(CollectiveKind::kAllReduce, Bytes(8.0 * 64)).time.count();
  CHECK(counts > network->over_all(CollectiveKind::kAllReduce, Bytes(1)).time.count() * 1.001);  // the bytes tell
  CHECK(part(run, LayerPart::kPlanning) == doctest::Approx(static_cast<double>(run.steps) * 16 * counts).epsilon(1e-6));
}

TEST_CASE("on even loads no policy that acts in every step beats doing nothing") {
  std::vector<std::string> labels{"contiguous"};
  for (const StepPolicyEntry& entry : step_policies()) {
    if (entry.name != "waterfill") {  // OLMoE has no shared expert
      labels.emplace_back(entry.name);
    }
  }
  const Scenario s = scenario({"serving.chunked_prefill_size=16384", "loads={kind: uniform}",
                               "plan_loads={kind: uniform}", "requests.input_tokens=8000"},
                              labels);
  const RunResult nothing = run_policy(s, s.policies[0], {});
  for (const PolicyChoice& policy : s.policies) {
    CAPTURE(policy.label);
    const RunResult run = run_policy(s, policy, {});
    // Whole assignments against expected ones: rows differ by 0.1 % where nothing moves.
    CHECK(run.time.total / static_cast<double>(run.steps) >
          nothing.time.total / static_cast<double>(nothing.steps) * 0.999);
  }
}

TEST_CASE("a linear programme over copies evens out what an even split leaves") {
  // Loads that drifted from those planned for.
  const Scenario s =
      scenario({"serving.chunked_prefill_size=8192", "policies.eplb.num_redundant_experts=16", "loads.drift=0.5",
                "loads.window=1", "policies.lp={kind: lplb, home: eplb, planning_time: 0s}"},
               {"eplb", "lp"});
  const RunResult even = run_policy(s, s.policies[0], {}), lp = run_policy(s, s.policies[1], {});
  CHECK(part(lp, LayerPart::kExperts) < part(even, LayerPart::kExperts));
  // The copies take the same memory.
  CHECK(prepare_run(s, s.policies[1]).last().serving.kv_blocks ==
        prepare_run(s, s.policies[0]).last().serving.kv_blocks);
}

TEST_CASE("transient copies take their slots' memory, and nothing in steps that are left alone") {
  const Scenario s =
      scenario({"policies.few={kind: ultraep, prefill_tokens: 1000000}"}, {"base", "ultraep", "few", "contiguous"});
  const PreparedInstance base = prepare_run(s, s.policies[0]).last(), slots = prepare_run(s, s.policies[1]).last();
  CHECK(slots.buffers.count() == 2 * 12.0 * 1024 * 1024);  // two experts of 3 x 2048 x 1024 x 2 B, for all layers
  CHECK(base.memory.kv_pool.count() - slots.memory.kv_pool.count() == doctest::Approx(slots.buffers.count()));
  const RunResult few = run_policy(s, s.policies[2], {}), in_order = run_policy(s, s.policies[3], {});
  CHECK(part(few, LayerPart::kPrefetch) == 0);
  CHECK(part(few, LayerPart::kPlanning) == 0);
  CHECK(part(few, LayerPart::kExperts) == doctest::Approx(part(in_order, LayerPart::kExperts)).epsilon(0.01));
}

TEST_CASE("who dispatches the shared expert needs one as wide as the routed ones") {
  const Scenario none = scenario({}, {"waterfill"});  // OLMoE has none
  CHECK_THROWS_AS(prepare_run(none, none.policies[0]), InputError);
}

TEST_CASE("much longer plans make longer steps, and a late prefetch is in the time by part") {
  double last = 0;
  for (const char* planning : {"50us", "500us", "5ms"}) {
    const Scenario s = scenario({std::string("policies.libra.planning_time=") + planning}, {"libra"});
    const RunResult run = run_policy(s, s.policies[0], {});
    CHECK(run.time.total.count() > last);
    last = run.time.total.count();
  }
  const Scenario slow = scenario({"policies.libra.copy_efficiency=0.02"}, {"libra"});
  const Scenario fast = scenario({}, {"libra"});
  const RunResult late = run_policy(slow, slow.policies[0], {}), in_time = run_policy(fast, fast.policies[0], {});
  CHECK(part(late, LayerPart::kPrefetch) > 5 * part(in_time, LayerPart::kPrefetch));
  CHECK(late.time.total > in_time.time.total);
}

TEST_CASE("over any fabric and over flows: slower behind a narrow leaf, and every policy ends") {
  const std::string leaf = "cluster.fabric={kind: leaf_spine, nodes_per_leaf: 1, oversubscription: 4}";
  for (const std::string policy : {"libra", "lina", "harmoeny", "fastermoe", "least_loaded_ep"}) {
    CAPTURE(policy);
    const auto time = [&](std::vector<std::string> more) {
      more.emplace_back("cluster.nodes=2");
      const Scenario s = scenario(std::move(more), {policy});
      const RunResult run = run_policy(s, s.policies[0], {});
      CHECK(run.completed == 24);
      return run.time.total;
    };
    const Seconds plain = time({});
    CHECK(time({leaf}) > plain);
    CHECK(time({"network.model=max_min"}) >= plain * (1 - 1e-9));
  }
  for (const std::string& setting : {leaf, std::string("network.model=max_min")}) {
    const Scenario s = scenario({"cluster.nodes=2", "execution.sync=pairwise", setting}, {"base"});
    const Scenario barrier = scenario({"cluster.nodes=2", setting}, {"base"});
    const RunResult pairwise = run_policy(s, s.policies[0], {});
    CHECK(pairwise.completed == 24);
    CHECK(pairwise.time.total > 0.5 * run_policy(barrier, barrier.policies[0], {}).time.total);
  }
}

TEST_CASE("double buffers come out of the KV pool") {
  const Scenario s = scenario({}, {"base", "libra"});
  const PreparedInstance base = prepare_run(s, s.policies[0]).last(), libra = prepare_run(s, s.policies[1]).last();
  // Two sets of 64 / 8 + 8 experts of 12 MiB (3 x 2048 x 1024 x 2 B).
  CHECK(libra.buffers.count() == 2 * 16 * 12.0 * 1024 * 1024);
  CHECK(base.memory.kv_pool.count() - libra.memory.kv_pool.count() == doctest::Approx(libra.buffers.count()));
  CHECK(libra.serving.kv_blocks < base.serving.kv_blocks);
}

TEST_CASE("wrong predictions cost balance, not tokens") {
  const Scenario right = scenario({"policies.lina.accuracy=1.0", "policies.lina.distortion=0.0"}, {"lina"});
  const Scenario wrong = scenario({"policies.lina.accuracy=0.0", "policies.lina.distortion=2.0"}, {"lina"});
  const RunResult a = run_policy(right, right.policies[0], {}), b = run_policy(wrong, wrong.policies[0], {});
  CHECK(a.completed == b.completed);
  CHECK(a.time.straggler < b.time.straggler);
}

TEST_CASE("a policy with its own overlap refuses another's, and options out of range") {
  const Scenario s = scenario({"execution.overlap=two_batch"}, {"libra"});
  CHECK_THROWS_AS(prepare_run(s, s.policies[0]), InputError);
  CHECK_THROWS_AS(scenario({"policies.libra.accuracy=1.5"}, {"libra"}), InputError);
  CHECK_THROWS_AS(scenario({"policies.libra.copy_efficiency=0"}, {"libra"}), InputError);
  CHECK_THROWS_AS(scenario({"execution.mode=closed_form", "execution.overlap=two_batch"}, {"base"}), InputError);
  CHECK_THROWS_AS(scenario({"execution.sync=sometimes"}, {"base"}), InputError);
  CHECK_THROWS_AS(scenario({"execution.exchange_sm_share=1.0"}, {"base"}), InputError);
  CHECK_THROWS_AS(scenario({"execution.two_batch_min_tokens=1"}, {"base"}), InputError);
}
