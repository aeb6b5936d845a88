// How tokens travel in steps with and without prompts, and in pools.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/cluster/run_policy.h"
#include "sim/core/error.h"
#include "tests/support/small_scenario.h"

namespace epsim {
using test::small;

namespace {

constexpr const char* kH200 = "cluster.node=DGX-H200";
const std::string kApart =
    "deployment={prefill: {serving: {chunked_prefill_size: 1024}}, decode: {dispatch: {transport: "
    "deepep_low_latency}}}";

Seconds step(const std::string& transport, const std::vector<RankBatch>& ranks) {
  const Scenario s = small({kH200, "dispatch.transport=" + transport});
  const PreparedInstance prepared = prepare_run(s, s.policies[0]).last();
  StepModel model(s.model, s.cluster, s.parallelism, s.dispatch, prepared.placement, *s.loads, s.compute, s.network);
  return model.price(5, ranks).total;
}

}  // namespace

TEST_CASE("DeepEP auto: a step costs what the kernels cost that it takes") {
  const std::vector<RankBatch> prompts = {{.prefill_tokens = 512, .decode_tokens = 0, .sampled = 1}, {}};
  const std::vector<RankBatch> decodes = {{.prefill_tokens = 0, .decode_tokens = 64, .sampled = 64},
                                          {.prefill_tokens = 0, .decode_tokens = 32, .sampled = 32}};
  std::vector<RankBatch> mixed = decodes;
  mixed[0].prefill_tokens = 200;
  CHECK(step("deepep_auto", prompts) == step("deepep_normal", prompts));
  CHECK(step("deepep_auto", mixed) == step("deepep_normal", mixed));
  CHECK(step("deepep_auto", decodes) == step("deepep_low_latency", decodes));
  CHECK(step("deepep_normal", decodes) != step("deepep_low_latency", decodes));
}

TEST_CASE("DeepEP auto over a run: decode-only steps are those of the low-latency kernels") {
  const auto run = [](const std::string& transport) {
    const Scenario s = small({kH200, "dispatch.transport=" + transport, "requests.rate=0.5/s", "requests.count=5",
                              "serving.disable_overlap_schedule=true", "serving.scheduler_gap=0s"});
    return run_policy(s, s.policies[0], {});
  };
  // Requests two seconds apart never meet, so that every run has the same steps. Tokens are seen when their step ends:
  // the launch of a decode step with the normal kernels would keep the host from the first one.
  const RunResult both = run("deepep_auto"), normal = run("deepep_normal"), low = run("deepep_low_latency");
  CHECK(both.latency.ttft_s.mean == normal.latency.ttft_s.mean);
  CHECK(both.latency.tpot_s.mean == low.latency.tpot_s.mean);
  CHECK(normal.latency.tpot_s.mean > low.latency.tpot_s.mean);
}

TEST_CASE("experts' kernels are a backend's where one is named, DeepGEMM behind DeepEP, else the engine's") {
  const auto kernels = [](const std::string& node, const std::string& dispatch) {
    return small({"cluster.node=" + node, "dispatch={transport: " + dispatch + "}"}).dispatch.expert_kernels;
  };
  CHECK(kernels("DGX-H200", "allgather_reducescatter") == KernelBackend::kAuto);
  CHECK(kernels("DGX-H200", "deepep_normal") == KernelBackend::kDeepGemm);
  CHECK(kernels("p6-b200.48xlarge", "nccl_p2p, expert_kernels: trtllm") == KernelBackend::kTrtllm);
  const Scenario pools =
      small({"cluster.node=p6-b200.48xlarge", "dispatch={transport: nccl_p2p, expert_kernels: trtllm}",
             "deployment={prefill: {dispatch: {expert_kernels: deepgemm}}, decode: {}}"});
  CHECK(pools.deployment.pools[0].dispatch.expert_kernels == KernelBackend::kDeepGemm);
  CHECK(pools.deployment.pools[1].dispatch.expert_kernels == KernelBackend::kTrtllm);
  CHECK_THROWS_WITH_AS(small({kH200, "dispatch={transport: nccl_p2p, expert_kernels: trtllm}"}),
                       doctest::Contains("the kernels of h200 have no trtllm"), InputError);
  CHECK_THROWS_WITH_AS(
      small({kH200, "model={architecture: kimi-k2.5}", "dispatch={transport: nccl_p2p, expert_kernels: deepgemm}"}),
      doctest::Contains("deepgemm has no kernels for int4 experts"), InputError);
}

TEST_CASE("a pool's dispatch falls back to the scenario's") {
  const Scenario s = small({kH200, "dispatch={transport: deepep_normal, dispatch_dtype: fp8}", kApart});
  const DispatchOptions &prefill = s.deployment.pools[0].dispatch, &decode = s.deployment.pools[1].dispatch;
  CHECK(prefill.network.transport == Transport::kDeepEpNormal);
  CHECK(prefill.dedup == Dedup::kNode);
  CHECK(decode.network.transport == Transport::kDeepEpLowLatency);
  CHECK(decode.dedup == Dedup::kNone);
  // fp8 and a float32 scale for every 128 elements; the low-latency kernels' header of 16 bytes a row (OLMoE: 2048).
  CHECK(prefill.dispatch_bytes == doctest::Approx(1 + 4.0 / 128));
  CHECK(decode.dispatch_bytes == doctest::Approx(1 + 4.0 / 128 + 16.0 / 2048));
  CHECK(decode.combine_bytes == 2.0);
}

TEST_CASE("what only the scenario's transport has does not reach a pool with another one") {
  const Scenario s = small({kH200, "dispatch={transport: nccl_p2p, dedup: node, exchange_counts: false}", kApart});
  CHECK(s.deployment.pools[0].dispatch.dedup == Dedup::kNode);
  CHECK_FALSE(s.deployment.pools[0].dispatch.exchange_counts);
  CHECK(s.deployment.pools[1].dispatch.dedup == Dedup::kNone);
}

TEST_CASE("NCCL relays by default where NVLink joins the GPUs, in pools as the scenario says") {
  const auto pxn = [](const std::vector<std::string>& sets) { return small(sets).dispatch.network.pxn; };
  CHECK(pxn({}));
  CHECK_FALSE(pxn({"dispatch.pxn=false"}));
  CHECK_FALSE(pxn({"cluster={node: grace-8x3090, nodes: 1}"}));
  CHECK_FALSE(pxn({kH200, "dispatch.transport=deepep_normal"}));
  CHECK_FALSE(pxn({"dispatch.transport=allgather_reducescatter"}));
  const Scenario s =
      small({kH200, "dispatch={transport: nccl_p2p, pxn: false}", "deployment={prefill: {}, decode: {}}"});
  CHECK_FALSE(s.deployment.pools[0].dispatch.network.pxn);
  const Scenario apart = small({kH200, "dispatch={transport: nccl_p2p}", kApart});
  CHECK(apart.deployment.pools[0].dispatch.network.pxn);
  CHECK_FALSE(apart.deployment.pools[1].dispatch.network.pxn);
}

TEST_CASE("a pool's transport that its links were not measured with names the pool") {
  try {
    small({kApart});  // p4de: no DeepEP over EFA
    FAIL("accepted");
  } catch (const InputError& e) {
    CHECK(e.place.key == "deployment.decode.dispatch.transport");
  }
}

TEST_CASE("GPUs of a scenario are those of all its pools") {
  CHECK(all_gpus(small({})) == 2 * 8);
  CHECK(all_gpus(small({"deployment={instances: 3}"})) == 3 * 2 * 8);
  CHECK(all_gpus(small({"deployment={prefill: {instances: 2, nodes: 1, serving: {}}, decode: {nodes: 2}}"})) ==
        2 * 8 + 2 * 8);
}

TEST_CASE("policies that act in every step leave decode instances alone") {
  const std::string pools = "deployment={prefill: {}, decode: {}}";
  const auto run = [&](const std::string& policy) {
    const Scenario s = small({kH200, "dispatch.transport=nccl_p2p", pools, policy});
    return run_policy(s, s.policies[0], {});
  };
  const RunResult libra = run("policy={kind: libra, n_extra: 4, n_local: 2}"), plain = run("policy=contiguous");
  const auto part = [](const RunResult& r, std::size_t instance, LayerPart p) {
    return r.instances[instance].time.by_part[static_cast<std::size_t>(p)].count();
  };
  CHECK(part(libra, 0, LayerPart::kPlanning) + part(libra, 0, LayerPart::kPrefetch) > 0);
  CHECK(part(libra, 1, LayerPart::kPlanning) == 0);
  CHECK(part(libra, 1, LayerPart::kPrefetch) == 0);
  CHECK(libra.plan_summary.starts_with("prefill: "));
  // No buffers for copies are held there either.
  CHECK(libra.kv.blocks_per_rank == plain.kv.blocks_per_rank);
}

}  // namespace epsim
