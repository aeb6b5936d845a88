#include "sim/scenario/expert_layout.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "models/network/make_network.h"
#include "sim/cluster/run_policy.h"
#include "tests/support/errors.h"
#include "tests/support/small_scenario.h"

namespace epsim {
namespace {

using test::small;

const std::string kGather = "dispatch={transport: allgather_reducescatter}";
const std::string kHybrid = "serving.engine=sglang_0_4_10";

std::string ep_size(int ranks) { return fmt::format("parallelism.ep_size={}", ranks); }

std::string refused(const std::vector<std::string>& settings) {
  const InputError e = test::error_of<InputError>([&] {
    const Scenario s = small(settings);
    prepare_run(s, s.policies[0]);
  });
  return e.place.key + ": " + e.problem;
}

}  // namespace

TEST_CASE("any divisor as ep_size: everything is served, and an EP rank a GPU is the default") {
  const Scenario all = small({kGather, kHybrid});
  const RunResult plain = run_policy(all, all.policies[0], {});
  for (const int ranks : {16, 8, 4, 2, 1}) {
    CAPTURE(ranks);
    const Scenario s = small({kGather, kHybrid, ep_size(ranks)});
    const PreparedInstance prepared = prepare_run(s, s.policies[0]).last();
    CHECK(prepared.plan.gpus == ranks);
    CHECK(prepared.placement.gpus() == 16);
    CHECK(prepared.memory.experts_base.count() == doctest::Approx(16 * 64 / 16 * 12582912.0));  // layers, experts, GPUs
    const RunResult run = run_policy(s, s.policies[0], {});
    CHECK(run.completed == 40);
    CHECK(run.conservation.assignments_executed == doctest::Approx(run.detail.assignments_routed).epsilon(1e-4));
    CHECK((run.fingerprint == plain.fingerprint) == (ranks == 16));
    if (ranks == 1) {
      CHECK(run.detail.layers[0].balancedness_min == 1.0);
    }
  }
}

TEST_CASE("EP ranks in pools, with copies, replanned, played as events and over flows") {
  const std::string copies = "policies={tested: {kind: eplb, num_redundant_experts: 16}}";
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), {kGather, kHybrid, ep_size(4), "policy=tested"});
    const Scenario s = small(more);
    return run_policy(s, s.policies[0], {});
  };
  const RunResult closed = run({copies});
  CHECK(closed.completed == 40);
  CHECK(closed.memory.copies.count() == 16 / 4 * 16 * 12582912.0 / 4);  // four a rank and layer, 16 layers, a quarter
  CHECK(run({copies, "execution={mode: event}"}).fingerprint == closed.fingerprint);
  CHECK(run({copies, "network={model: max_min}"}).completed == 40);
  const RunResult moved =
      run({"policies={tested: {kind: eplb, num_redundant_experts: 16, rebalance: {rule: every, "
           "steps: 3, window: 3, planning_time: 1ms}}}"});
  CHECK(moved.completed == 40);
  const RebalanceEvent sum = moved.rebalance.sum();
  CHECK(sum.moved_copies > 0);
  CHECK(sum.moved.count() == doctest::Approx(12582912.0 * static_cast<double>(sum.moved_copies)));
  // A GPU that goes takes its EP rank's experts; EPLB has spread the copies over the others.
  const Scenario lost = small({"policies={tested: {kind: eplb, num_redundant_experts: 64, avoid_duplicates: true}}",
                               "policy=tested", kGather, kHybrid, ep_size(4), "parallelism.attention_tp=2",
                               "plan_loads={kind: uniform}", "faults=[{at: 100ms, gpu: 3, lost: true}]"});
  const RunResult less = run_policy(lost, lost.policies[0], {});
  CHECK(less.completed == 40);
  CHECK(less.detail.gpu_load[0] < less.detail.gpu_load[4]);
  const std::string pools =
      "deployment={prefill: {nodes: 1, serving: {engine: sglang_0_4_10}, ep_size: 2}, "
      "decode: {nodes: 2}}";
  const Scenario apart = small({kGather, kHybrid, pools});
  CHECK(apart.deployment.pools[0].parallelism.moe_tp == 4);
  CHECK(apart.deployment.pools[1].parallelism.moe_tp == 1);
  CHECK(run_policy(apart, apart.policies[0], {}).completed == 40);
  // A pool without an ep_size has the scenario's GPUs an EP rank, and all of its own where those are all.
  const std::string plain = "deployment={prefill: {nodes: 1, serving: {}}, decode: {nodes: 1, serving: {}}}";
  CHECK(small({kGather, kHybrid, ep_size(4), plain}).deployment.pools[0].parallelism.ep_size() == 2);
  CHECK(small({kGather, kHybrid, ep_size(1), plain}).deployment.pools[1].parallelism.ep_size() == 1);
}

// 1536 columns over 8 GPUs: 192, a block and a half of 128. TensorRT-LLM pads them.
TEST_CASE("a part of an fp8 expert that is not whole blocks is priced as padded, with a warning") {
  const auto warned = [](const char* engine) {
    const Scenario s = small({"cluster={node: DGX-H200, nodes: 1}", "model={architecture: qwen3-235b-a22b, dtype: fp8}",
                              fmt::format("serving={{engine: {}}}", engine),
                              "parallelism={attention_tp: 8, ep_size: 1}", "dispatch={transport: allreduce}"});
    CHECK(s.parallelism.one_gpu_of(s.model).moe_intermediate == 256);
    return fmt::format("{}", fmt::join(s.warnings, "; "));
  };
  test::check_contains(warned("sglang"), {"sglang_0_5 does not load", "192 of 1536 columns", "priced as 256 columns"});
  test::check_contains(warned("vllm"), {"vllm_0_14 does not load"});
  CHECK(warned("trtllm").empty());
}

TEST_CASE("experts that do not divide over a pool need copies that make up for it") {
  // 64 experts on 24 GPUs: 8 copies make 72.
  const std::string pools = "deployment={prefill: {nodes: 3, serving: {}}, decode: {nodes: 1, serving: {}}}";
  const std::string problem = refused({pools});
  test::check_contains(problem, {"deployment.prefill.nodes", "64 experts", "24 GPUs"});
  const Scenario s = small({pools, "policies={eight: {kind: eplb, num_redundant_experts: 8}}", "policy=eight"});
  CHECK(run_policy(s, s.policies[0], {}).completed == 40);
}

TEST_CASE("layouts that no engine has are refused where they stand") {
  test::check_contains(refused({kGather, kHybrid, ep_size(3)}), {"parallelism.ep_size", "16 GPUs", "3 EP ranks"});
  test::check_contains(refused({kHybrid, ep_size(4)}), {"parallelism.ep_size", "allgather_reducescatter"});
  test::check_contains(refused({kGather, ep_size(4)}), {"sglang_0_4_8", "16 or 1", "sglang_0_4_10"});
  test::check_contains(refused({kGather, "serving={engine: vllm_v1}", ep_size(8)}), {"vllm_v1", "16 or 1"});
  CHECK_NOTHROW(small({kGather, "serving={engine: vllm_v1}", ep_size(1)}));
  test::check_contains(refused({kGather, kHybrid, ep_size(4), "policy=libra"}), {"libra", "whole experts"});
  test::check_contains(refused({kGather, kHybrid, ep_size(2), "cluster.nodes=3"}), {"do not align with nodes of 8"});
  // 1024 columns on 16 GPUs are half an fp8 block each, and padded to a whole one.
  CHECK_NOTHROW(small({kGather, kHybrid, ep_size(1), "cluster.node=DGX-H100", "model.dtype=fp8"}));
  test::check_contains(refused({kGather, kHybrid,
                                "deployment={prefill: {ep_size: 4, serving: {engine: vllm_v1}}, "
                                "decode: {}}"}),
                       {"deployment.prefill.ep_size", "vllm_v1"});
  CHECK_THROWS_WITH_AS(small({"parallelism.attention_tp=5"}),
                       "--set: `parallelism.attention_tp`: 16 GPUs do not divide into DP ranks of 5 GPUs. "
                       "Allowed: 1, 2, 4, 8, 16.",
                       InputError);
}

// One request of 700 tokens in and 12 out: a step with its prompt, 11 with one token, and one more that the overlapping
// schedule has put together before the last token is seen. Each of OLMoE's 16 layers adds up
// 2048 bf16 columns a token over both nodes after attention, and again after the experts.
TEST_CASE("a DP rank over all nodes adds up over all GPUs, twice a layer") {
  const std::vector<std::string> one = {"dispatch={transport: allreduce}", "parallelism={attention_tp: 16}",
                                        "requests.count=1"};
  const Scenario s = small(one);
  CHECK(s.parallelism.dp_ranks() == 1);
  const auto network = make_network(s.cluster, s.network, s.dispatch.network);
  const auto sum = [&](double tokens) {
    return network->over_all(CollectiveKind::kAllReduce, Bytes(tokens * 2048 * 2)).time.count();
  };
  const RunResult run = run_policy(s, s.policies[0], {});
  REQUIRE(run.detail.layers.size() == 16);
  for (const LayerPart part : {LayerPart::kDispatch, LayerPart::kCombine}) {
    const Seconds time = run.detail.layers[3].by_part[static_cast<std::size_t>(part)];
    CHECK(time.count() == doctest::Approx(sum(700) + 12 * sum(1)).epsilon(1e-6));
  }
  std::vector<std::string> event = one;
  event.emplace_back("execution={mode: event}");
  const Scenario e = small(event);
  CHECK(run_policy(e, e.policies[0], {}).latency.e2e_s.mean == doctest::Approx(run.latency.e2e_s.mean).epsilon(1e-6));
  test::check_contains(refused({kGather, "parallelism={attention_tp: 16}"}), {"attention_tp", "allreduce, no other"});
  test::check_contains(
      refused({"dispatch={transport: allreduce}", "parallelism={attention_tp: 16}", "cluster.nodes=4"}),
      {"attention_tp", "only one rank"});
}

}  // namespace epsim
