#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "models/catalogue/model_catalogue.h"
#include "sim/cluster/kv_lanes.h"
#include "sim/cluster/run_policy.h"
#include "sim/core/error.h"
#include "sim/scenario/deployment_options.h"
#include "sim/scenario/scenario.h"
#include "tests/support/errors.h"
#include "tests/support/small_scenario.h"

namespace epsim {
using test::small;

TEST_CASE("a scenario without a deployment is one instance") {
  CHECK(small({}).deployment.single());
  CHECK(small({"deployment={instances: 1}"}).deployment.single());
}

TEST_CASE("two instances share the requests and report side by side") {
  const Scenario one = small({}), two = small({"deployment={instances: 2, router: least_tokens}"});
  CHECK(two.deployment.router == Router::kLeastTokens);
  const RunResult a = run_policy(one, one.policies[0], {}), b = run_policy(two, two.policies[0], {});
  CHECK(b.prefill_memory.empty());
  CHECK(b.completed == a.completed);
  CHECK(b.gpus == 2 * a.gpus);
  CHECK(b.detail.gpus == 2 * a.detail.gpus);
  CHECK(b.detail.gpu_load.size() == 2 * a.detail.gpu_load.size());
  CHECK(b.detail.links.size() == 2 * a.detail.links.size());
  CHECK(b.detail.links.front().name == "i0." + a.detail.links.front().name);
  CHECK(b.latency.ttft_s.mean <= a.latency.ttft_s.mean);
  // Prompt and decode tokens are the same, whoever computes them.
  CHECK(b.conservation.assignments_routed == doctest::Approx(a.conservation.assignments_routed));
  CHECK(run_policy(two, two.policies[0], {}).fingerprint == b.fingerprint);
}

// A GPU without others has no links: what instances report side by side is empty, and a run once ended in a division by 0.
TEST_CASE("instances of one GPU report side by side without links") {
  const Scenario s = small({"cluster={node: p5.4xlarge, nodes: 1}", "parallelism={}", "network={model: max_min}",
                            "dispatch={}", "deployment={instances: 2}"});
  const RunResult run = run_policy(s, s.policies[0], {});
  CHECK(run.completed == 40);
  CHECK(run.gpus == 2);
  CHECK(run.detail.links.empty());
  CHECK(run.detail.bottleneck_s.empty());
}

// v1.1, executor/base_worker.py refuses context-only requests with the overlap scheduler.
TEST_CASE("TensorRT-LLM's prefill instances schedule between steps, unless they are told otherwise") {
  const auto overlap = [](const std::string& prefill) {
    const Scenario s =
        small({"serving={engine: trtllm_1_2}", "deployment={prefill: {nodes: 2" + prefill + "}, decode: {nodes: 2}}"});
    return std::pair(s.deployment.pools[0].serving.overlap_schedule, s.deployment.pools[1].serving.overlap_schedule);
  };
  CHECK(overlap("") == std::pair(false, true));
  CHECK(overlap(", serving: {}") == std::pair(false, true));
  CHECK(overlap(", serving: {disable_overlap_scheduler: false}") == std::pair(true, true));
}

TEST_CASE("a pool may use a part of each node: of its GPUs, and as much of its NICs") {
  const Scenario s =
      small({"deployment={prefill: {nodes: 1, gpus_per_node: 4, attention_tp: 4, serving: {}}, "
             "decode: {nodes: 1, serving: {}}}"});
  REQUIRE(s.deployment.pools.size() == 2);
  const ClusterSpec &part = s.deployment.pools[0].cluster, &whole = s.deployment.pools[1].cluster;
  CHECK(part.gpus() == 4);
  CHECK(whole.gpus() == 8);
  CHECK(part.node.node_rate().count() == doctest::Approx(whole.node.node_rate().count() / 2));
  CHECK(s.deployment.pools[0].parallelism.gpus == 4);
  test::check_contains(test::error_of<InputError>([] {
                         small({"deployment={prefill: {gpus_per_node: 16, serving: {}}, decode: {serving: {}}}"});
                       }).what(),
                       {"gpus_per_node", "has 8 GPUs, not 16"});
}

TEST_CASE("prefill and decode pools of their own sizes") {
  const Scenario s =
      small({"deployment={prefill: {instances: 2, nodes: 1, serving: {chunked_prefill_size: 512}}, "
             "decode: {instances: 1, nodes: 2, attention_tp: 4, num_gpu_blocks: 20000, serving: {}}}"});
  REQUIRE(s.deployment.pools.size() == 2);
  CHECK(s.deployment.pools[0].serving.role == InstanceRole::kPrefill);
  CHECK(s.deployment.pools[0].serving.token_budget == 512);
  CHECK(s.deployment.pools[0].parallelism.dp_ranks() == 1);
  CHECK(s.deployment.pools[1].parallelism.dp_ranks() == 4);
  const PreparedRun prepared = prepare_run(s, s.policies[0]);
  REQUIRE(prepared.pools.size() == 2);
  CHECK(prepared.last().serving.kv_blocks == 20000);
  CHECK(prepared.pools[0].serving.kv_blocks != 20000);
  const RunResult run = run_policy(s, s.policies[0], {});
  CHECK(run.completed == 40);
  CHECK(run.gpus == 2 * 8 + 16);
  CHECK(run.transfers.count == 40);
  CHECK(run.transfers.tokens == 40 * 700);
  REQUIRE(run.instances.size() == 3);
  CHECK(run.instances[0].role == InstanceRole::kPrefill);
  CHECK(run.instances[2].role == InstanceRole::kDecode);
  // Half as many GPUs hold all experts.
  const auto experts_of = [](std::span<const MemoryItem> items) {
    return std::ranges::find(items, kRoutedExpertsItem, &MemoryItem::name)->size;
  };
  REQUIRE_FALSE(run.prefill_memory.empty());
  CHECK(experts_of(run.prefill_memory) == experts_of(run.memory.items) * 2.0);
  // What left by the lanes came in by them: 40 prompts of 700 tokens.
  const auto carried = [&](const std::string& way) {
    Bytes sum{};
    for (const LinkTotals& link : run.detail.links) {
      const bool lane = link.name.find(".kv_lane") != std::string::npos && link.name.ends_with(way);
      sum += lane ? link.bytes : Bytes{};
    }
    return sum;
  };
  CHECK(carried(".out") == s.model.kv_bytes_per_token(1) * (40.0 * 700));
  CHECK(carried(".in") == carried(".out"));
  CHECK(run.detail.bottleneck_s.size() == run.detail.layers.size() * 2 * run.detail.links.size());
  // Each of the 40 first tokens came no earlier than its transfer allows.
  const KvLanes lanes(s.deployment.pools[0], s.network.inter, s.model, s.deployment.pools[1].parallelism.attention_tp);
  CHECK(lanes.ranks_per_lane() == 1);
  // In chunks of 512 tokens at most: every prompt goes in two parts or three, each with a latency of its own. A rank that
  // decodes has half the NICs, and takes the last part at their rate.
  const KvLanes taking(s.deployment.pools[1], s.network.inter, s.model, s.deployment.pools[1].parallelism.attention_tp);
  CHECK(taking.rate().count() == lanes.rate().count() / 2);
  CHECK(run.transfers.time.count() > 40 * lanes.transfer_time(700, true, 1.0).count());
  CHECK(run.transfers.time.count() < 40 * 3 * taking.transfer_time(234, true, 1.0).count());
}

// p4de's NICs have the all-to-all of p5 over 16 GPUs and more; a transfer has two ends.
TEST_CASE("what stands in for links between nodes is named wherever something crosses them") {
  const auto between = [](const std::string& deployment) {
    const Scenario s = small({"deployment=" + deployment, "requests.count=2"});
    std::string out;
    for (const std::string& reason : run_policy(s, s.policies[0], {}).carried_over) {
      out += reason + "\n";
    }
    return out;
  };
  const char *link = "links between nodes (efa-p4de)", *transfer = "KV transfers: the all-to-all over 16 GPUs";
  const std::string none = between("{instances: 2}"), pools = between("{prefill: {}, decode: {}}"),
                    long_prefill = between("{prefill: {nodes: 2, serving: {}}, decode: {nodes: 1, serving: {}}}");
  CHECK(none.find(transfer) == std::string::npos);
  test::check_contains(pools, {link, transfer});
  test::check_contains(long_prefill, {link, transfer});
  const std::string one_node = between("{prefill: {nodes: 1, serving: {}}, decode: {nodes: 1, serving: {}}}");
  test::check_contains(one_node, {link, transfer});
}

// SGLang splits dense layers and head over all GPUs with DP attention: by the pool's own DP ranks, unless somebody says so
// (--moe-dense-tp-size 1, --enable-dp-lm-head).
TEST_CASE("each pool holds dense layers and head as its engine does with its DP ranks") {
  const auto pools = [](const std::string& parallelism, const std::string& more) {
    std::vector<std::pair<Sharding, Sharding>> out;
    for (const InstancePool& pool :
         small({"cluster.node=DGX-H200", "parallelism={" + parallelism + "}", "serving={engine: sglang_0_5}",
                "deployment.prefill={nodes: 1, attention_tp: 8, ep_size: 1, serving: {}, dispatch: {transport: "
                "allreduce}}",
                "deployment.decode={nodes: 1, attention_tp: 1, serving: {}, "
                "dispatch: {transport: allgather_reducescatter}" +
                    more + "}"})
             .deployment.pools) {
      out.emplace_back(pool.parallelism.dense_ffn, pool.parallelism.lm_head);
    }
    return out;
  };
  using Held = std::vector<std::pair<Sharding, Sharding>>;
  const std::pair rank{Sharding::kTensorParallel, Sharding::kTensorParallel};
  CHECK(pools("attention_tp: 1", "") == Held{rank, {Sharding::kAllGpus, Sharding::kAllGpus}});
  CHECK(pools("attention_tp: 8", "") == Held{rank, {Sharding::kAllGpus, Sharding::kAllGpus}});
  CHECK(pools("attention_tp: 8, embedding: replicated, dense_ffn: replicated", "") ==
        Held{{Sharding::kReplicated, Sharding::kReplicated}, {Sharding::kReplicated, Sharding::kReplicated}});
  CHECK(pools("attention_tp: 1", ", dense_ffn: replicated, lm_head: tensor_parallel") ==
        Held{rank, {Sharding::kReplicated, Sharding::kTensorParallel}});
}

TEST_CASE("a pool that names no engine has the scenario's") {
  const Scenario s = small({"serving={engine: sglang_0_4_10}",
                            "deployment={prefill: {serving: {chunked_prefill_size: 512}}, "
                            "decode: {serving: {engine: vllm_v1}}}"});
  CHECK(s.deployment.pools[0].serving.engine == "sglang_0_4_10");
  CHECK(s.deployment.pools[1].serving.engine == "vllm_v1");
}

TEST_CASE("a KV transfer takes its bytes over the NICs' rate and measured efficiency") {
  const Scenario s = small({});
  const KvLanes lanes(pools_of(s).front(), s.network.inter, s.model, 8);
  CHECK(lanes.per_node() == 1);  // one DP rank of 8 GPUs has all NICs
  CHECK(lanes.rate().count() == doctest::Approx(s.cluster.node.node_rate().count()));
  const double bytes = s.model.kv_bytes_per_token(1).count() * 100'000;  // 16 KV heads: 2 on each of 8 GPUs
  const double wire = bytes / lanes.rate().count(), time = lanes.transfer_time(100'000, true, 1.0).count();
  CHECK(time > wire);  // no more than the data sheet's rate
  CHECK(time == doctest::Approx(s.network.inter.time(CollectiveKind::kAllToAll, 2, Seconds{wire}).time.count()));
}

// Every GPU of a rank caches all of MLA's latents: 61 layers x (512 + 64) x 2 B = 70272 B a token.
TEST_CASE("MLA's latents travel as often as the decode rank has GPUs, by as many NICs") {
  Scenario s = small({});
  s.model = find_model("deepseek-r1");
  InstancePool pool = pools_of(s).front();  // 8 GPUs a rank
  REQUIRE(pool.cluster.node.nics == 4);     // p4de
  const auto lanes = [&](int receivers) { return KvLanes(pool, s.network.inter, s.model, receivers); };
  CHECK(lanes(1).cache_of(1, 1000).count() == 70272.0 * 1000);
  CHECK(lanes(8).cache_of(1, 1000).count() == 8 * 70272.0 * 1000);
  pool.memory.drafter = true;  // its layer's latents go along: 62 layers
  CHECK(lanes(8).cache_of(1, 1000).count() == 8 * 71424.0 * 1000);
  pool.memory.drafter = false;
  // To 8 GPUs each of the 4 NICs carries two copies, to 4 one each, to one a NIC carries it alone.
  const auto wire = [&](int receivers) { return lanes(receivers).transfer_time(100'000, true, 1.0).count(); };
  CHECK(wire(1) == doctest::Approx(wire(4)));
  CHECK(wire(2) == doctest::Approx(wire(4)));
  CHECK(wire(8) == doctest::Approx(2 * wire(4)).epsilon(0.02));
  pool.parallelism.attention_tp = 1;  // the rank's GPU shares a NIC with one other
  CHECK(lanes(8).transfer_time(100'000, true, 1.0).count() ==
        doctest::Approx(8 * lanes(1).transfer_time(100'000, true, 1.0).count()).epsilon(0.02));
}

// Data sheets: 400 Gb/s a GPU on all of them, by 1, 2 or 4 NICs.
TEST_CASE("a GPU sends MLA's latents by all of its NICs, however many those are") {
  const MoeSpec model = find_model("deepseek-r1");
  const auto wire = [&](const char* node, int ranks_of, int receivers) {
    const Scenario s = small({std::string("cluster.node=") + node});
    InstancePool pool = pools_of(s).front();
    pool.parallelism.attention_tp = ranks_of;
    const KvLanes lanes(pool, s.network.inter, model, receivers);
    const Bytes bytes = lanes.cache_of(1, 100'000);
    return std::pair{bytes / BytesPerSecond(50e9), lanes.transfer_time(100'000, true, 1.0)};
  };
  for (const char* node : {"DGX-H200", "p5en.48xlarge", "p5.48xlarge"}) {
    CAPTURE(node);
    const Scenario s = small({std::string("cluster.node=") + node});
    const auto check = [&](int ranks_of, int receivers, double sending_gpus) {
      const auto [alone, time] = wire(node, ranks_of, receivers);
      CHECK(time.count() ==
            doctest::Approx(s.network.inter.time(CollectiveKind::kAllToAll, 2, alone / sending_gpus).time.count()));
    };
    check(1, 1, 1);
    check(1, 8, 1);  // eight copies from the rank's one GPU
    check(2, 1, 1);  // one of the rank's two sends, by its own NICs
    check(8, 1, 1);
    check(8, 4, 4);
    check(8, 8, 8);
  }
}

TEST_CASE("attention may be spread over a node, a GPU or any divisor") {
  for (const int tp : {1, 2, 4, 8}) {
    CAPTURE(tp);
    const Scenario s = small({"parallelism.attention_tp=" + std::to_string(tp)});
    CHECK(s.serving.dp_ranks == 16 / tp);
    CHECK(run_policy(s, s.policies[0], {}).completed == 40);
  }
}

TEST_CASE("buffers of one size are those of all pools with the scenario's transport") {
  const auto factors = [](const std::string& pools) {
    const Scenario s = small({"cluster.node=DGX-H200", "deployment=" + pools,
                              "dispatch={transport: nccl_p2p, dedup: none, capacity_factor: 1.5, least_capacity: 4}"});
    const ExpertCapacity prefill = s.deployment.pools[0].dispatch.capacity,
                         decode = s.deployment.pools[1].dispatch.capacity;
    return std::vector<double>{prefill.factor, 1.0 * prefill.least, decode.factor, 1.0 * decode.least};
  };
  CHECK(factors("{prefill: {}, decode: {dispatch: {combine_dtype: fp8}}}") == std::vector<double>{1.5, 4, 1.5, 4});
  CHECK(factors("{prefill: {dispatch: {capacity_factor: 2}}, decode: {dispatch: {transport: deepep_low_latency}}}") ==
        std::vector<double>{2, 4, 0, 0});
  test::check_contains(test::error_of<InputError>([] { small({"dispatch.least_capacity=4"}); }).what(),
                       {"dispatch.least_capacity", "leave least_capacity out"});
}

TEST_CASE("several nodes without a network are refused where the scenario says how many") {
  const InputError error = test::error_of<InputError>([] { small({"cluster={node: p5.4xlarge, nodes: 32}"}); });
  CHECK(error.place.key == "cluster.nodes");
  CHECK(error.problem == "32 nodes need NICs with a positive rate, and a p5.4xlarge has none.");
}

TEST_CASE("impossible deployments are refused where they stand") {
  struct Bad {
    const char* setting;
    const char* key;
    const char* word;
  };
  for (const Bad& bad :
       {Bad{"deployment={prefill: {nodes: 1}}", "deployment.prefill", "decode"},
        Bad{"deployment={decode: {nodes: 1}}", "deployment.decode", "prefill"},
        Bad{"deployment={instances: 0}", "deployment.instances", "positive"},
        Bad{"deployment={instances: 2, prefill: {}, decode: {}}", "deployment.instances", "own count"},
        Bad{"deployment={prefill: {nodes: 3, serving: {}}, decode: {}}", "deployment.prefill.nodes", "divide"},
        Bad{"deployment={prefill: {attention_tp: 3}, decode: {}}", "deployment.prefill.attention_tp", "divide"},
        Bad{"deployment={prefill: {nodes: 1}, decode: {}}", "deployment.prefill.serving", "DP ranks"},
        Bad{"deployment={replicas: 2}", "deployment.replicas", "instances"},
        Bad{"deployment={prefill: {serving: {max_num_seqs: 4}}, decode: {}}", "deployment.prefill.serving.max_num_seqs",
            "vllm_v1"}}) {
    CAPTURE(bad.setting);
    try {
      small({bad.setting});
      FAIL("the deployment was accepted");
    } catch (const InputError& error) {
      CHECK(error.place.key == bad.key);
      CHECK(error.problem.find(bad.word) != std::string::npos);
    }
  }
}

}  // namespace epsim
