// What engines choose.
#include "sim/scenario/engine_defaults.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "models/memory/memory_model.h"
#include "sim/cluster/run_policy.h"
#include "sim/scenario/new_scenario.h"
#include "sim/scenario/read_scenario.h"
#include "sim/scheduler/cuda_graph.h"
#include "sim/scheduler/sglang_0_5_defaults.h"
#include "sim/scheduler/sglang_knobs.h"
#include "sim/scheduler/vllm_knobs.h"
#include "tests/support/errors.h"
#include "tests/support/small_scenario.h"

namespace epsim {
using test::small;

namespace {

constexpr double kGib = 1073741824.0;

EngineSite site(double gib, int gpus, int dp_ranks) {
  return {.dp_ranks = dp_ranks, .gpus = gpus, .gpu = "", .gpu_memory = Bytes(gib * kGib)};
}

// Everything left to the engine.
Scenario left_to(const std::string& engine, const std::string& node, const std::string& more = "") {
  const std::string text =
      "name: defaults\nseed: 1\ncluster: {node: " + node + ", nodes: 2}\n" +
      "model: {architecture: olmoe-1b-7b, dtype: bf16}\nparallelism: {attention_tp: 1}\nserving: {engine: " + engine +
      "}\nrequests: {kind: constant, rate: 1/s, count: 2, input_tokens: 64, output_tokens: 4}\n"
      "loads: {kind: uniform}\nplan_loads: {kind: uniform}\n" +
      more;
  return read_scenario(Config::from_text(text, "defaults.yaml"), {});
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("TensorRT-LLM's tokens: an all-to-all over the NVLink of a rack, else an all-gather") {
  const NodeEntry rack = find_node("GB200-NVL72"), box = find_node("DGX-B300");
  const MoeSpec moe = find_model("DeepSeek-R1");
  const auto transport = [&](const NodeEntry& node, int gpus, int dp_ranks) {
    ClusterSpec cluster{node.spec, 1};
    cluster.node.gpus = gpus;
    return default_transport("trtllm_1_x", moe, cluster, node.network, dp_ranks, InstanceRole::kWhole).value;
  };
  CHECK(transport(rack, 64, 64) == "nvlink_one_sided");
  CHECK(transport(rack, 4, 4) == "nvlink_one_sided");  // of one tray, too
  CHECK(transport(box, 8, 8) == "allgather_reducescatter");
  CHECK(transport(rack, 8, 1) == "allreduce");
}

TEST_CASE("SGLang's tokens: DeepEP, but for gpt-oss, whose code has no path for it") {
  const NodeEntry node = find_node("DGX-H200");
  const ClusterSpec cluster{node.spec, 1};
  const auto transport = [&](const char* model, const char* engine) {
    return default_transport(engine, find_model(model), cluster, node.network, 8, InstanceRole::kWhole).value;
  };
  CHECK(transport("DeepSeek-R1", "sglang_0_5") == "deepep_auto");
  for (const char* model : {"gpt-oss-20b", "gpt-oss-120b"}) {
    CHECK(transport(model, "sglang_0_5") == "allgather_auto");
    CHECK(transport(model, "vllm_0_14") == transport("DeepSeek-R1", "vllm_0_14"));
  }
  Config config = Config::from_text(
      "name: forced\nseed: 1\ncluster: {node: DGX-H200, nodes: 1}\nmodel: {architecture: gpt-oss-20b, dtype: bf16}\n"
      "parallelism: {attention_tp: 1}\nserving: {engine: sglang}\nloads: {kind: uniform}\nplan_loads: {kind: uniform}\n"
      "requests: {kind: constant, rate: 1/s, count: 2, input_tokens: 64, output_tokens: 4}\n",
      "forced.yaml");
  CHECK(engine_warnings(read_scenario(config, {})).empty());
  config.set(std::vector<std::string>{"dispatch.transport=deepep_auto"});
  const auto told = engine_warnings(read_scenario(config, {}));
  REQUIRE(told.size() == 1);
  CHECK(has(told.front(), "sglang_0_5 does not run gpt-oss-20b with it"));
}

TEST_CASE("vLLM's tokens: two all-reduces a layer with one DP rank, broadcasts between several") {
  ClusterSpec cluster;
  cluster.node = find_node("DGX-H200").spec;
  cluster.nodes = 1;
  const MoeSpec moe = find_model("DeepSeek-R1");
  CHECK(default_transport("vllm_0_14", moe, cluster, {}, 2, InstanceRole::kWhole).value == "allgather_reducescatter");
  CHECK(default_transport("vllm_v1", moe, cluster, {}, 1, InstanceRole::kWhole).value == "allreduce");
  CHECK(default_transport("vllm_v1", moe, cluster, {}, 2, InstanceRole::kWhole).value == "broadcast_allreduce");
}

TEST_CASE("a vLLM pool sets aside what its own max_num_seqs needs, and its resolved scenario the same") {
  const Scenario s =
      left_to("vllm_v1", "DGX-H200",
              "deployment: {prefill: {serving: {max_num_seqs: 128}}, decode: {serving: {max_num_seqs: 512}}}\n");
  const Scenario again = read_scenario(Config::from_text(s.resolved, "resolved.yaml"), {});
  for (const Scenario* each : {&s, &again}) {
    const std::vector<InstancePool> pools = pools_of(*each);
    REQUIRE(pools.size() == 2);
    CHECK(pools[0].memory.profiled_peak.count() == 128 * 38.0 * s.model.vocab);
    CHECK(pools[1].memory.profiled_peak.count() == 512 * 38.0 * s.model.vocab);
  }
}

TEST_CASE("SGLang's fraction of static memory") {
  // 80 GB with DP attention over 48, 64, 96 GPUs: (80 - 9.5 - n / 2 - 4) / 80.
  CHECK(sglang_static_fraction(site(80, 48, 6), false).value == doctest::Approx(0.531));
  CHECK(sglang_static_fraction(site(80, 64, 8), false).value == doctest::Approx(0.431));
  CHECK(sglang_static_fraction(site(80, 96, 12), false).value == doctest::Approx(0.231));
  // H200, TP8 alone, 143771 MiB = 140.401 GiB: (140.401 - 12 - 4) / 140.401; 2 GiB less with speculation.
  CHECK(sglang_static_fraction(site(140.401, 8, 1), false).value == doctest::Approx(0.886));
  CHECK(sglang_static_fraction(site(140.401, 8, 1), true).value == doctest::Approx(0.872));
}

// SGLang v0.5.9, server_args.py, _handle_gpu_memory_settings, in MiB: 512, 1.5 a token of a chunk, 2 a captured request, 128 a
// GPU; with DP attention 4.5 a captured request and rank (3 up to 300); 2048 with speculation.
TEST_CASE("SGLang v0.5's fraction of static memory, chunks, graphs and attention") {
  EngineSite h200 = site(143771.0 / 1024, 8, 1), dp8 = site(143771.0 / 1024, 8, 8), b200 = site(179, 8, 1);
  h200.gpu = "H200";
  b200.gpu = "B200";
  // 512 + 12288 + 1024 + 1024 = 14848 of 143771.
  CHECK(sglang_0_5_static_fraction(h200, {8192, 512, false}).value == doctest::Approx(0.897));
  CHECK(sglang_0_5_static_fraction(h200, {8192, 512, true}).value == doctest::Approx(0.882));
  CHECK(sglang_0_5_static_fraction(dp8, {8192, 512, false}).value == doctest::Approx(0.769));  // 18432 more
  CHECK(sglang_0_5_static_fraction(dp8, {8192, 256, false}).value == doctest::Approx(0.858));  // 14336 + 6144
  // 512 + 3072 + 16 + 1024 is less than the 10 GiB of large GPUs.
  CHECK(sglang_0_5_static_fraction(h200, {1024, 8, false}).value == doctest::Approx(0.929));
  // What a scenario gets; drafts alone take 2048 MiB, 0.014 of the memory.
  const auto fraction = [](const std::string& more) {
    const Scenario s = read_scenario(
        Config::from_text("name: f\nseed: 1\ncluster: {node: DGX-H200, nodes: 1}\n"
                          "model: {architecture: deepseek-r1, dtype: fp8}\nparallelism: {attention_tp: 8}\n"
                          "serving: {engine: sglang_0_5, cuda_graph_max_bs: 48" +
                              more +
                              "}\nrequests: {kind: constant, rate: 1/s, count: 2, input_tokens: 64, output_tokens: 4}\n"
                              "loads: {kind: uniform}\nplan_loads: {kind: uniform}\n",
                          "f.yaml"),
        {});
    return s.memory.static_fraction;
  };
  CHECK(fraction("") == doctest::Approx(sglang_0_5_static_fraction(h200, {8192, 48, false}).value));
  CHECK(fraction(", speculative: {draft_tokens: 1, acceptance: 0.8}") ==
        doctest::Approx(sglang_0_5_static_fraction(h200, {8192, 48, true}).value));
  CHECK(sglang_0_5_chunk(h200).value == 8192);
  CHECK(sglang_0_5_chunk(b200).value == 16384);
  const auto sizes = sglang_0_5_graph_sizes(h200, {}).value;
  CHECK(sizes.size() == 5 + 31 + 15 + 1);  // 1, 2, 4, 8, 12; 16 to 256 by 8; 272 to 496 by 16; 512
  CHECK(sizes[4] == 12);
  CHECK(sizes.back() == 512);
  CHECK(sglang_0_5_graph_sizes(h200, {.largest = 20, .pad = true, .speculative = false}).value ==
        std::vector<std::int64_t>{1, 2, 4, 8, 12, 16});
  CHECK(sglang_0_5_attention_backend(h200, "fa3").value == "fa3");
  CHECK(sglang_0_5_attention_backend(b200, "fa3").value == "trtllm_mla");
  const InputError hopper = test::error_of<InputError>([] {
    small({"cluster.node=DGX-H200", "serving={engine: sglang_0_5, attention_backend: trtllm_mla}"});
  });
  test::check_contains(hopper.what(), {"`serving.attention_backend`", "refuses trtllm_mla on H200"});
  const Scenario left = left_to("sglang_0_5", "p6-b200.48xlarge");
  CHECK(left.memory.kv_block_tokens == 64);
  CHECK(left.model.attention.absorbed_below == 0);
  const ServingOptions v2 = small({"serving={engine: sglang_0_5, enable_spec_v2: true, prefill_decode_interval: 4, "
                                   "speculative: {draft_tokens: 2, acceptance: 0.8}}"})
                                .serving;
  CHECK(v2.overlap_schedule);
  CHECK(v2.prefill_alignment.decode_interval == 4);
  CHECK_FALSE(small({"serving={engine: sglang_0_5, speculative: {draft_tokens: 2, acceptance: 0.8}}"})
                  .serving.overlap_schedule);
}

TEST_CASE("a schedule that does not overlap costs host time in every step") {
  const auto gap = [](const std::string& serving, int attention_tp = 8) {
    return schedule_gap(small({"cluster.nodes=1", "serving={" + serving + "}",
                               "parallelism={attention_tp: " + std::to_string(attention_tp) + "}"})
                            .serving)
        .count();
  };
  const std::string drafts = ", speculative: {draft_tokens: 2, acceptance: 0.8}";
  CHECK(gap("engine: sglang_0_5") == 0);
  CHECK(gap("engine: sglang_0_5, enable_spec_v2: true" + drafts) == 0);
  // Milliseconds a step: 1000 x 16 requests / tokens per second, 1000 x accepted tokens / tokens per second.
  CHECK(1e3 * gap("engine: sglang_0_5, disable_overlap_schedule: true") ==
        doctest::Approx(16e3 / 3053.86 - 16e3 / 3458.31).epsilon(0.001));
  CHECK(1e3 * gap("engine: sglang_0_5, disable_overlap_schedule: true", 1) ==
        doctest::Approx(2e3 / 51 - 2e3 / 60.4).epsilon(0.001));
  CHECK(1e3 * gap("engine: sglang_0_5" + drafts) == doctest::Approx(2296 / 140.52 - 2296 / 159.71).epsilon(0.002));
  CHECK(gap("engine: sglang_0_4_10" + drafts) == gap("engine: sglang_0_5" + drafts));
  CHECK(1e3 * gap("engine: vllm_v1") == doctest::Approx(37.98 - 36.40));
  CHECK(gap("engine: vllm_0_14") == 0);
  CHECK(1e3 * gap("engine: vllm_0_14, async_scheduling: false") == doctest::Approx(37.98 - 36.40));
  CHECK(gap("engine: trtllm") == 0);
  CHECK(gap("engine: vllm_v1, scheduler_gap: 3ms") == 3e-3);
  const std::vector<std::string> idle = small({"serving={engine: sglang_0_5, scheduler_gap: 3ms}"}).serving.idle_knobs;
  CHECK(std::ranges::count(idle, "serving.scheduler_gap has no effect: the schedule overlaps.") == 1);
  CHECK(small({"serving={engine: sglang_0_5, scheduler_gap: 0s}"}).serving.idle_knobs.empty());
  CHECK(gap("engine: sglang_0_5" + drafts.substr(0, drafts.size() - 1) + ", drafter: none}") ==
        gap("engine: sglang_0_5, disable_overlap_schedule: true"));  // no pass of a layer is launched
  // TensorRT-LLM's prefill instances do not overlap, its decode instances do.
  const Scenario apart =
      small({"deployment={prefill: {}, decode: {}}", "serving={engine: trtllm, scheduler_gap: 3ms}"});
  CHECK(apart.warnings.empty());
  CHECK(schedule_gap(pools_of(apart).front().serving).count() == 3e-3);
  CHECK(schedule_gap(pools_of(apart).back().serving).count() == 0);
}

TEST_CASE("SGLang's graphs divide over the GPUs of a DP rank") {
  const auto sizes = [](const std::string& more) {
    return small({"parallelism={attention_tp: 4}", "serving={engine: sglang_0_5, " + more + "}"}).serving.graphs.sizes;
  };
  const Scenario of_four = small({"parallelism={attention_tp: 4}", "serving={engine: sglang_0_5}"});
  REQUIRE(of_four.serving.dp_ranks > 1);
  CHECK(sizes("cuda_graph_max_bs: 16") == std::vector<std::int64_t>{4, 8, 12, 16});  // without 1 and 2
  CHECK(sizes("cuda_graph_bs: [2, 3, 4]") == std::vector<std::int64_t>{4});
  const InputError none = test::error_of<InputError>([&] { sizes("cuda_graph_bs: [1, 2, 3]"); });
  test::check_contains(none.what(), {"`serving.cuda_graph_bs`", "divide over the 4 GPUs of a DP rank; none is left"});
  const InputError too_small = test::error_of<InputError>([&] { sizes("cuda_graph_max_bs: 3"); });
  test::check_contains(too_small.what(),
                       {"`serving.cuda_graph_max_bs`", "divide over the 4 GPUs of a DP rank; none is left"});
}

TEST_CASE("SGLang 0.5 without DeepEP adds all tokens up in steps with prompts, and gathers them in the others") {
  const Scenario s = left_to("sglang_0_5", "p6-b200.48xlarge");
  CHECK(s.dispatch.network.transport == Transport::kAllReduce);
  REQUIRE(s.dispatch.decode_steps != nullptr);
  CHECK(s.dispatch.decode_steps->network.transport == Transport::kAllGatherReduceScatter);
  CHECK(s.dispatch.decode_steps->dedup == Dedup::kPadded);
  const Scenario again = read_scenario(Config::from_text(s.resolved, "resolved.yaml"), {});
  CHECK(again.dispatch.network.transport == Transport::kAllReduce);
  CHECK(again.dispatch.decode_steps != nullptr);
}

TEST_CASE("chunks, graphs and budgets by GPU") {
  CHECK(sglang_chunk(site(24, 8, 1)).value == 2048);
  CHECK(sglang_chunk(site(140, 8, 1)).value == 8192);
  CHECK(sglang_chunk(site(180, 8, 1)).value == 16384);
  EngineSite a100 = site(80, 8, 1), h100 = a100;
  a100.gpu = "A100-80";
  h100.gpu = "H100";
  CHECK(vllm_batched_tokens(a100).value == 2048);
  CHECK(vllm_sequences(a100).value == 256);
  CHECK(vllm_batched_tokens(h100).value == 8192);
  CHECK(vllm_sequences(h100).value == 1024);
}

// SGLang v0.4.8 to v0.4.10: server_args.py (cuda_graph_max_bs), cuda_graph_runner.py (get_batch_sizes_to_capture).
TEST_CASE("SGLang captures batches of these sizes") {
  using Sizes = std::vector<std::int64_t>;
  const auto of = [](double gib, int gpus, GraphWishes wishes = {}) {
    return sglang_graph_sizes(site(gib, gpus, 1), wishes).value;
  };
  CHECK(of(24, 2) == Sizes{1, 2, 4, 8});
  CHECK(of(24, 4) == Sizes{1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80});
  // 1, 2, 4 and 8 to 160 in steps of 8; H200 to 256 in the same steps; B200 on to 512 in steps of 16.
  CHECK(of(80, 8).size() == 3 + 20);
  CHECK(of(140, 8).size() == 3 + 32);
  CHECK(of(140, 8).back() == 256);
  const Sizes b200 = of(179, 8);
  CHECK(b200.size() == 3 + 32 + 16);
  CHECK(b200[35] == 272);
  CHECK(b200.back() == 512);
  // A smaller cuda_graph_max_bs cuts the list; a larger one goes on in steps of 16.
  CHECK(of(80, 8, {.largest = 20, .pad = true, .speculative = false}) == Sizes{1, 2, 4, 8, 16});
  CHECK(of(80, 8, {.largest = 200, .pad = true, .speculative = false}).size() == 3 + 20 + 2);
  CHECK(of(80, 8, {.largest = 200, .pad = true, .speculative = false}).back() == 192);
  // Without padding, and with speculative decoding.
  CHECK(of(80, 8, {.largest = {}, .pad = false, .speculative = false}).size() == 32 + 8);
  CHECK(of(80, 8, {.largest = {}, .pad = true, .speculative = true}).size() == 8 + 12 + 3 + 6);
}

TEST_CASE("speculative decoding changes what SGLang may run at once and captures") {
  const auto serving = [](const std::string& more) {
    return small({"serving.enable_mixed_chunk=false", more}).serving;
  };
  const ServingOptions off = serving("serving.speculative={draft_tokens: 0}");
  const ServingOptions on = serving("serving.speculative={draft_tokens: 2, acceptance: 0.8}");
  CHECK(off.max_running_requests == 0);
  CHECK(on.max_running_requests == 48 / on.dp_ranks);
  // Decodes idle while another DP rank works on a prompt; vLLM computes both together.
  CHECK(on.dp_ranks > 1);
  CHECK(on.decodes_await_prompts);
  CHECK_FALSE(off.decodes_await_prompts);
  CHECK_FALSE(small({"serving={engine: vllm_v1, speculative: {draft_tokens: 2, acceptance: 0.8}}"})
                  .serving.decodes_await_prompts);
  // A graph of one request takes its token and two drafts.
  CHECK(on.graphs.sizes.front() == 3);
  CHECK(off.graphs.sizes.front() == 1);
}

TEST_CASE("vLLM captures twice as many tokens as sequences may run") {
  CHECK(vllm_graph_sizes(1024).value.back() == 512);
  CHECK(vllm_graph_sizes(1024).value.size() == 3 + 64);
  CHECK(vllm_graph_sizes(30).value.back() == 56);
  CHECK(vllm_graph_sizes(1).value == std::vector<std::int64_t>{1, 2, 4});
}

TEST_CASE("the transport is the engine's on that network") {
  const auto transport = [](const Scenario& s) { return s.dispatch.network.transport; };
  const Scenario older = left_to("sglang_0_4_8", "DGX-H200"), newer = left_to("sglang_0_4_10", "DGX-H200");
  CHECK(transport(older) == Transport::kDeepEpNormal);
  CHECK_FALSE(older.serving.graphs.enabled);
  CHECK(transport(newer) == Transport::kDeepEpNormal);
  REQUIRE(newer.dispatch.decode_steps != nullptr);
  CHECK(newer.serving.graphs.enabled);
  const Scenario padded = left_to("sglang_0_4_10", "p4de.24xlarge");
  CHECK(transport(padded) == Transport::kAllGatherAllReduce);
  REQUIRE(padded.dispatch.uneven_steps != nullptr);
  CHECK(padded.dispatch.uneven_steps->network.transport == Transport::kAllReduce);
  CHECK(padded.serving.graphs.enabled);
  CHECK(transport(left_to("sglang_0_4_8", "p4de.24xlarge")) == Transport::kAllReduce);
  CHECK(transport(left_to("vllm_v1", "DGX-H200")) == Transport::kBroadcastAllReduce);
  const Scenario apart = left_to("sglang_0_4_8", "DGX-H200", "deployment: {prefill: {}, decode: {}}\n");
  CHECK(apart.deployment.pools[0].dispatch.network.transport == Transport::kDeepEpNormal);
  CHECK(apart.deployment.pools[1].dispatch.network.transport == Transport::kDeepEpLowLatency);
  CHECK_FALSE(apart.deployment.pools[0].serving.graphs.enabled);
  CHECK(apart.deployment.pools[1].serving.graphs.enabled);
}

TEST_CASE("pools without engine settings of their own capture the same when the resolved scenario is read") {
  const auto graphs = [](const Scenario& s) {
    return std::vector<bool>{s.deployment.pools[0].serving.graphs.enabled,
                             s.deployment.pools[1].serving.graphs.enabled};
  };
  const char* pools = "deployment: {prefill: {}, decode: {}}\n";
  for (const char* engine : {"sglang_0_4_8", "sglang_0_5", "vllm_v1", "trtllm_1_x"}) {
    CAPTURE(engine);
    const Scenario first = left_to(engine, "DGX-H200", pools);
    CHECK(graphs(read_scenario(Config::from_text(first.resolved, "resolved"), {})) == graphs(first));
  }
  // What the scenario states holds for both pools, in the words of each engine.
  const auto stated = [&](const char* engine, const char* key) {
    Config config = Config::from_text(left_to(engine, "DGX-H200", pools).resolved, "resolved");
    config.set(key);
    return graphs(read_scenario(config, {}));
  };
  CHECK(stated("sglang_0_4_8", "serving.disable_cuda_graph=false") == std::vector<bool>{true, true});
  CHECK(stated("vllm_v1", "serving.enforce_eager=true") == std::vector<bool>{false, false});
  CHECK(stated("trtllm_1_x", "serving.use_cuda_graph=false") == std::vector<bool>{false, false});
}

TEST_CASE("shared experts have a stream of their own where the engine gives them one, and not behind DeepEP") {
  const auto tokens = [](const Scenario& s) { return s.serving.shared_stream_tokens; };
  CHECK(tokens(left_to("sglang_0_5", "p4de.24xlarge")) == 1024);  // DUAL_STREAM_TOKEN_THRESHOLD
  CHECK(tokens(left_to("sglang_0_5", "DGX-H200")) == 0);          // DeepEP
  CHECK(tokens(left_to("trtllm_1_x", "DGX-H200")) == 1'000'000);
  // Behind DeepEP, too.
  CHECK(tokens(small({"cluster={node: GB200-NVL72, nodes: 1, gpus_per_node: 4}", "parallelism={attention_tp: 1}",
                      "serving={engine: trtllm_1_x}", "dispatch={transport: deepep_low_latency}"})) == 1'000'000);
  CHECK(tokens(left_to("vllm_v1", "DGX-H200")) == 0);
  const Scenario vllm = left_to("vllm_0_14", "DGX-H200");
  CHECK(tokens(vllm) == 256);  // VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD, of a rank's own tokens
  CHECK(vllm.serving.shared_stream_by_rank);
}

// server_args.py: fp8_e4m3 from compute capability 10 on, else bfloat16.
TEST_CASE("SGLang's caches of sparse attention are fp8 on Blackwell") {
  const auto bytes = [](const std::string& node, const std::string& model, const std::string& engine) {
    return small({"cluster.node=" + node, "model={architecture: " + model + ", dtype: fp8}", "cluster.nodes=2",
                  "serving={engine: " + engine + "}", "dispatch={}"})
        .model.bytes_per_kv;
  };
  CHECK(bytes("p6-b200.48xlarge", "deepseek-v3.2", "sglang_0_5") == 1);
  CHECK(bytes("DGX-H200", "deepseek-v3.2", "sglang_0_5") == 2);
  CHECK(bytes("p6-b200.48xlarge", "deepseek-v3.2", "vllm_0_14") == 2);
  CHECK(bytes("p6-b200.48xlarge", "deepseek-r1", "sglang_0_5") == 2);
  // Pools' own engines count, and the scenario's, SGLang, for a pool without one.
  const auto pools = [](const std::string& decode) {
    return small({"cluster={node: p6-b200.48xlarge, nodes: 2}", "model={architecture: deepseek-v3.2, dtype: fp8}",
                  "dispatch={}", "serving={engine: sglang_0_5}",
                  "deployment={prefill: {serving: {engine: vllm_0_14}}, decode: {serving: {" + decode + "}}}"})
        .model.bytes_per_kv;
  };
  CHECK(pools("engine: vllm_0_14") == 2);
  CHECK(pools("engine: sglang_0_5") == 2);  // one cache for both
}

// sglang pull request 16110: bootstrap_room % dp_size; the room is drawn.
TEST_CASE("prompts go to DP ranks of SGLang's prefill instances at random, in a section of their own or not") {
  const auto routers = [](const std::string& engine, const std::string& serving) {
    std::vector<Router> out;
    const Scenario s =
        left_to(engine, "DGX-H200", "deployment: {prefill: {" + serving + "}, decode: {" + serving + "}}\n");
    for (const InstancePool& pool : pools_of(s)) {
      out.push_back(pool.serving.router);
    }
    const Scenario resolved = read_scenario(Config::from_text(s.resolved, "resolved.yaml"), {});
    for (std::size_t i = 0; i < out.size(); ++i) {
      CHECK(pools_of(resolved)[i].serving.router == out[i]);
    }
    return out;
  };
  using Both = std::vector<Router>;
  for (const char* serving : {"", "serving: {mem_fraction_static: 0.8}"}) {
    CHECK(routers("sglang_0_5", serving) == Both{Router::kRandom, Router::kRoundRobin});
  }
  CHECK(routers("sglang_0_5", "serving: {router: round_robin}") == Both{Router::kRoundRobin, Router::kRoundRobin});
  CHECK(routers("vllm_0_14", "") == Both{Router::kLeastRequests, Router::kLeastRequests});
  CHECK(routers("trtllm_1_x", "") == Both{Router::kEvenRequests, Router::kEvenRequests});
}

TEST_CASE("which batches absorb MLA's up-projections follows SGLang's backend, which follows the GPU") {
  const auto below = [](const Scenario& s) { return s.model.attention.absorbed_below; };
  CHECK(below(left_to("sglang_0_4_8", "DGX-H200")) == 8192);               // fa3, SGL_CHUNKED_PREFIX_CACHE_THRESHOLD
  CHECK(std::isinf(below(left_to("sglang_0_4_8", "p4de.24xlarge"))));      // triton
  CHECK(std::isinf(below(left_to("sglang_0_4_10", "p6-b200.48xlarge"))));  // flashinfer
  CHECK(below(left_to("vllm_v1", "DGX-H200")) == 0);                       // prompts and decodes apart
  CHECK(below(small({"serving.attention_backend=fa3"})) == 8192);
}

TEST_CASE("SGLang's dense layers and head are over all GPUs, unless the scenario or its flags say otherwise") {
  const auto layout = [](const Scenario& s) { return std::pair{s.parallelism.dense_ffn, s.parallelism.lm_head}; };
  const std::pair all{Sharding::kAllGpus, Sharding::kAllGpus},
      rank{Sharding::kTensorParallel, Sharding::kTensorParallel};
  CHECK(layout(left_to("sglang_0_4_8", "DGX-H200")) == all);
  CHECK(layout(left_to("sglang_0_4_10", "DGX-H200")) == all);
  CHECK(layout(left_to("vllm_v1", "DGX-H200")) == rank);
  // `embedding` is of the head too where `lm_head` is not given; one DP rank is tensor parallelism over all its GPUs.
  CHECK(layout(small({"parallelism={attention_tp: 4, embedding: replicated, dense_ffn: replicated}"})) ==
        std::pair{Sharding::kReplicated, Sharding::kReplicated});
  CHECK(layout(small({"cluster.nodes=1", "parallelism={attention_tp: 8}"})) == rank);
  CHECK_THROWS_WITH_AS(small({"parallelism.shared_experts=all_gpus"}), doctest::Contains("unknown value 'all_gpus'"),
                       InputError);
}

TEST_CASE("a resolved scenario tells its defaults, and is the same scenario") {
  const Scenario s = left_to("sglang_0_4_10", "DGX-H200");
  CHECK(has(s.resolved, "chunked_prefill_size: 512  # default: SGLang on H200, divided by the DP ranks"));
  CHECK(has(s.resolved, "transport: deepep_auto  # default: SGLang with DeepEP"));
  // (140.401 - 12 - 16 / 2 - 4) / 140.401
  CHECK(has(s.resolved, "mem_fraction_static: 0.829  # default: SGLang on H200, 16 GPUs"));
  CHECK_FALSE(has(s.resolved, "architecture: olmoe-1b-7b  #"));
  const Scenario again = read_scenario(Config::from_text(s.resolved, "resolved.yaml"), {});
  const PreparedInstance a = prepare_run(s, s.policies[0]).last(), b = prepare_run(again, again.policies[0]).last();
  CHECK(a.serving.kv_blocks == b.serving.kv_blocks);
  CHECK(run_policy(s, s.policies[0], {}).fingerprint == run_policy(again, again.policies[0], {}).fingerprint);
}

// SGLang turns mxfp4 experts of EP ranks into bf16 on Hopper; new scenarios have one GPU an EP rank.
TEST_CASE("a new scenario has the model's type where the engine has kernels for it there, else fp8 or bf16") {
  const auto type = [](const char* engine, const char* model, const char* node, int nodes = 1) {
    return with_dtype({engine, model, node, "", nodes}).dtype;
  };
  CHECK(type("sglang", "olmoe-1b-7b", "DGX-H200") == "fp8");
  CHECK(type("sglang", "olmoe-1b-7b", "p4de.24xlarge") == "bf16");
  CHECK(type("sglang", "kimi-k2.5", "p4de.24xlarge") == "int4");
  CHECK(type("sglang", "gpt-oss-120b", "DGX-H100") == "bf16");
  CHECK(type("sglang", "gpt-oss-120b", "p5.4xlarge") == "mxfp4");
  CHECK(type("vllm", "gpt-oss-120b", "DGX-H100") == "mxfp4");
  CHECK(type("vllm", "gpt-oss-120b", "p4de.24xlarge") == "bf16");
  CHECK(type("sglang", "gpt-oss-120b", "p6-b200.48xlarge", 2) == "mxfp4");
  CHECK(type("sglang", "mixtral-8x7b", "DGX-H200", 8) == "fp8");  // 8 experts do not divide over 64 GPUs
  const Scenario s = small({"model={architecture: gpt-oss-120b}", "cluster.node=DGX-H200"});
  CHECK(s.model.dtype == WeightType::kMxfp4);
  CHECK(read_scenario(Config::from_text(s.resolved, "resolved.yaml"), {}).model.dtype == WeightType::kMxfp4);
}

}  // namespace epsim
