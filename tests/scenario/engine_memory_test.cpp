// How engines lay out their KV pools: blocks, windows, drafters; and the tokens that they log.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "models/memory/memory_model.h"
#include "sim/scenario/read_scenario.h"
#include "sim/scheduler/sglang_0_5_defaults.h"
#include "tests/support/small_scenario.h"

namespace epsim {
using test::small;

namespace {

// A log line of SGLang, and the deployment that wrote it.
struct Logged {
  const char *model, *node;
  WeightType weights;
  int gpus, attention_tp;
  Sharding embedding;
  double fraction;
  std::int64_t tokens;
  double within;
};

std::int64_t predicted(const Logged& log) {
  MoeSpec model = find_model(log.model);
  model.dtype = log.weights;
  ClusterSpec cluster{find_node(log.node).spec, 1};
  cluster.node.gpus = cluster.node.nics = log.gpus;
  Parallelism parallelism;
  parallelism.gpus = log.gpus;
  parallelism.attention_tp = log.attention_tp;
  parallelism.embedding = parallelism.lm_head = log.embedding;
  MemoryOptions options;
  options.static_fraction = log.fraction;
  options.account = MemoryAccount::kSglang;
  const std::int64_t each = std::int64_t{model.experts} * model.moe_layers() / log.gpus;
  const std::vector<std::int64_t> resident(static_cast<std::size_t>(log.gpus), each);
  return memory_breakdown(model, cluster, parallelism, options, resident).ranks[0].tokens;
}

// Qwen3-235B, its attention and experts split over H100s.
Scenario qwen3_235b(const std::string& engine, int gpus, const std::string& dtype) {
  const std::string n = std::to_string(gpus);
  return read_scenario(
      Config::from_text("name: v\nseed: 1\ncluster: {node: DGX-H100, nodes: 1, gpus_per_node: " + n +
                            "}\nmodel: {architecture: qwen3-235b-a22b, dtype: " + dtype +
                            "}\nparallelism: {attention_tp: " + n +
                            ", ep_size: 1, embedding: tensor_parallel}\nserving: {engine: " + engine +
                            "}\nrequests: {kind: constant, rate: 1/s, count: 2, input_tokens: 64, output_tokens: 4}\n"
                            "loads: {kind: uniform}\nplan_loads: {kind: uniform}\n",
                        "v.yaml"),
      {});
}

}  // namespace

TEST_CASE("vLLM's blocks of MLA are those of its kernels") {
  const auto block = [](const std::string& node, const std::string& model, const std::string& engine) {
    return small({"cluster={node: " + node + ", nodes: 2}", "model={architecture: " + model + ", dtype: bf16}",
                  "parallelism={attention_tp: 1}", "serving={engine: " + engine + "}"})
        .memory.kv_block_tokens;
  };
  CHECK(block("DGX-H200", "DeepSeek-V2-Lite", "vllm_0_14") == 64);
  CHECK(block("p6-b200.48xlarge", "DeepSeek-V2-Lite", "vllm_v1") == 128);
  CHECK(block("p4de.24xlarge", "DeepSeek-V2-Lite", "vllm_v1") == 16);
  CHECK(block("DGX-H200", "olmoe-1b-7b", "vllm_0_14") == 16);
}

TEST_CASE("windows and drafters in the KV pool, by engine") {
  const auto memory = [](const std::string& engine, const std::string& node, const std::string& more = "") {
    return small({"cluster={node: " + node + ", nodes: 2}", "serving={engine: " + engine + more + "}"}).memory;
  };
  CHECK(memory("sglang_0_5", "DGX-H200").window_share == 0.8);
  CHECK(memory("sglang_0_5", "DGX-H200", ", swa_full_tokens_ratio: 0.5").window_share == 0.5);
  CHECK(memory("sglang_0_5", "p6-b200.48xlarge").window_share == 1);
  CHECK(memory("sglang_0_4_8", "DGX-H200").window_share == 1);
  CHECK(memory("trtllm_1_x", "DGX-H200").window_share == 1);
  CHECK(memory("vllm_0_14", "DGX-H200").window_share == 0);
  // SGLang has pools of their own for windows of few models (model_config.py, is_hybrid_swa_model).
  const auto share = [](const std::string& model_type, const std::string& gpu) {
    EngineSite site;
    site.model_type = model_type;
    site.gpu = gpu;
    return sglang_0_5_window_share(site).value;
  };
  CHECK(share("", "H100") == 0.8);  // it does not say which it is
  CHECK(share("gpt_oss", "H100") == 0.8);
  CHECK(share("gpt_oss", "B200") == 1);
  CHECK(share("mixtral", "H100") == 1);
  const std::string drafts = ", speculative: {draft_tokens: 1, acceptance: 0.8}";
  CHECK(memory("vllm_0_14", "DGX-H200", drafts).drafter);
  CHECK(memory("trtllm_1_x", "DGX-H200", drafts).drafter);
  CHECK_FALSE(memory("sglang_0_5", "DGX-H200", drafts).drafter);
  CHECK_FALSE(
      memory("vllm_0_14", "DGX-H200", ", speculative: {draft_tokens: 1, acceptance: 0.8, drafter: none}").drafter);
  CHECK_FALSE(memory("vllm_0_14", "DGX-H200").drafter);
}

TEST_CASE("KV tokens as SGLang logs them") {
  for (const Logged& log :
       {// SGLang 0.5.12 (InferenceX, dsr1_fp8_h200), published by ai-dynamo/aisimulate pull request 263.
        Logged{"deepseek-r1", "DGX-H200", WeightType::kFp8, 8, 8, Sharding::kTensorParallel, 0.82, 509'285, 0.03},
        // sglang pull request 17392: DP4 TP4 EP4, 138.29 GiB free, 16.39 of weights: (138.29 f - 16.39) GiB over
        // 98,304 B a token is the logged count for f = 0.8.
        Logged{"qwen3-30b-a3b", "DGX-H200", WeightType::kBf16, 4, 1, Sharding::kReplicated, 0.8, 1'029'388, 0.03},
        // vllm issue 21348: TP4, memory before loading not told.
        Logged{"qwen3-235b-a22b", "DGX-H100", WeightType::kFp8, 4, 4, Sharding::kTensorParallel, 0.93, 367'404,
               0.03}}) {
    const std::int64_t tokens = predicted(log);
    MESSAGE(std::string(log.model), ": ", tokens, " tokens, logged ", log.tokens);
    CHECK(static_cast<double>(tokens) == doctest::Approx(static_cast<double>(log.tokens)).epsilon(log.within));
  }
}

TEST_CASE("KV tokens as vLLM logs them: what its profile run sorts is set aside") {
  // vllm issue 21348: v0.9 on 4 H100, Qwen3-235B in fp8, TP4; 178,880 tokens.
  const Scenario s = qwen3_235b("vllm_v1", 4, "fp8");
  // 1024 sequences x 151,936 words x 38 B.
  CHECK(to_gib(s.memory.profiled_peak) == doctest::Approx(to_gib(Bytes(1024.0 * 151936 * 38))));
  const std::vector<std::int64_t> resident(4, std::int64_t{128} * 94);
  const MemoryBreakdown m = memory_breakdown(s.model, s.cluster, s.parallelism, s.memory, resident);
  MESSAGE("Qwen3-235B on vLLM: ", m.ranks[0].tokens, " tokens, logged 178,880");
  CHECK(static_cast<double>(m.ranks[0].tokens) == doctest::Approx(178'880).epsilon(0.08));
}

// gpustack, docs/performance-lab/qwen3-235b-a22b/h100.md: v0.11 on 8 H100, bf16, TP8. 5.05 requests/s of 184 tokens, 68.9 ms each,
// are 64 requests at a time, of 4,088 tokens at their ends: the pool holds 250,000 of them or more. v0.11.0 sampled by FlashInfer's
// kernel, as vLLM does again since April 2026 (pull requests 26859 and 40376); what a sort takes leaves no room for them.
TEST_CASE("vLLM sets aside less where its sampler does not sort") {
  const auto tokens = [](const char* engine) {
    const Scenario s = qwen3_235b(engine, 8, "bf16");
    const std::vector<std::int64_t> resident(8, std::int64_t{128} * 94);
    return memory_breakdown(s.model, s.cluster, s.parallelism, s.memory, resident).ranks[0].tokens;
  };
  MESSAGE("Qwen3-235B on vLLM: ", tokens("vllm_0_14"), " tokens");
  CHECK(tokens("vllm_0_14") > 250'000);
  CHECK(tokens("vllm_0_14") < 300'000);
  CHECK(tokens("vllm_v1") < 220'000);
}

TEST_CASE("SGLang's account of R1 on H200, worked out") {
  // Per GPU with TP8, GiB: what a step's weights come to (memory_model_test.cpp), embedding, head and router in bf16.
  MoeSpec model = find_model("deepseek-r1");
  model.dtype = WeightType::kFp8;
  CHECK(to_gib(model.embedding_bytes()) == doctest::Approx(to_gib(Bytes(2.0 * 129280 * 7168 * 2))));
  CHECK(to_gib(model.router_bytes()) == doctest::Approx(to_gib(Bytes(256.0 * 7168 * 2))));
  Parallelism tp8;
  tp8.gpus = tp8.attention_tp = 8;
  const ClusterSpec cluster{find_node("DGX-H200").spec, 1};
  const std::vector<std::int64_t> resident(8, 256 * 58 / 8);
  MemoryOptions options;
  options.static_fraction = 0.82;
  options.account = MemoryAccount::kSglang;
  const MemoryBreakdown m = memory_breakdown(model, cluster, tp8, options, resident);
  // Absorbed up-projections once more in bf16: 61 layers x 512 x 16 heads x (128 + 128) x 2 B = 0.238 GiB; scales: 4 B
  // for 128 x 128 of the 78.6 GiB in fp8 = 0.019 GiB.
  CHECK(to_gib(m.reserves) == doctest::Approx(0.238 + 0.019).epsilon(0.01));
  // 143771 MiB less 2.5 GiB, times 0.82.
  CHECK(to_gib(m.static_pool) == doctest::Approx((143771.0 / 1024 - 2.5) * 0.82));
  // SGLang logs 79.80 GiB for the weights.
  CHECK(to_gib(m.weights_total() + m.reserves) == doctest::Approx(79.80).epsilon(0.005));
}

// TensorRT-LLM v1.1, pyexecutor/_util.py, _cal_max_memory: (total - peak) x fraction, for the cache alone.
TEST_CASE("TensorRT-LLM gives the cache a share of what weights leave") {
  const MoeSpec model = [] {
    MoeSpec out = find_model("DeepSeek-R1");
    out.dtype = WeightType::kFp8;
    return out;
  }();
  Parallelism tp8;
  tp8.gpus = tp8.attention_tp = 8;
  const ClusterSpec cluster{find_node("DGX-H200").spec, 1};
  const std::vector<std::int64_t> resident(8, 256 * 58 / 8);
  MemoryOptions options;
  options.static_fraction = 0.75;
  options.account = MemoryAccount::kTrtllm;
  const MemoryBreakdown m = memory_breakdown(model, cluster, tp8, options, resident);
  const double left = 143771.0 / 1024 - 2.5 - to_gib(m.weights_total() + m.reserves);
  CHECK(to_gib(m.kv_pool) == doctest::Approx(0.75 * left));
  CHECK(m.extras_loss == doctest::Approx(0));
}

}  // namespace epsim
