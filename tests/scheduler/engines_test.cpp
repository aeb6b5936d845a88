#include "sim/scheduler/engines.h"

#include <doctest/doctest.h>

#include <any>
#include <string>
#include <vector>

#include "sim/core/error.h"
#include "sim/scheduler/cuda_graph.h"
#include "sim/scheduler/sglang_knobs.h"
#include "sim/scheduler/trtllm_knobs.h"
#include "sim/scheduler/vllm_knobs.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

EngineSettings read_all(const std::string& text, int dp_ranks = 8) {
  ConfigReader root = Config::from_text(text, "test.yaml").root();
  ConfigReader serving = root.section("serving");
  const EngineSettings out = read_engine_settings(serving, {.dp_ranks = dp_ranks});
  root.finish();
  return out;
}

ServingOptions read(const std::string& text, int dp_ranks = 8) { return read_all(text, dp_ranks).serving; }

const SglangKnobs& sglang(const ServingOptions& options) { return std::any_cast<const SglangKnobs&>(options.knobs); }
NewTokenRatio ratio_of(const std::string& text, int dp_ranks) { return sglang(read(text, dp_ranks)).ratio; }

}  // namespace

TEST_CASE("SGLang's defaults") {
  const ServingOptions options = read("{}");
  CHECK(options.engine == "sglang_0_5");
  CHECK(options.dp_ranks == 8);
  CHECK(options.token_budget == 8192 / 8);  // over the DP ranks
  CHECK(sglang(options).max_prefill_tokens == 16384);
  CHECK_FALSE(sglang(options).mixed_chunk);
  CHECK(options.max_running_requests == 0);
  CHECK(options.prefix_caching);
  CHECK(options.overlap_schedule);
  CHECK_FALSE(options.graphs.enabled);
  CHECK(options.router == Router::kRoundRobin);
  CHECK_FALSE(sglang(options).longest_prefix_first);
  CHECK(options.step_gap == Seconds{0});
}

TEST_CASE("SGLang's new-token ratio: 0.7 x conservativeness, x 0.3 with several DP ranks, floor x 0.14") {
  const NewTokenRatio several = ratio_of("{}", 8);
  CHECK(several.init == doctest::Approx(0.21));
  CHECK(several.min == doctest::Approx(0.21 * 0.14));
  CHECK(several.decay == doctest::Approx((0.21 - 0.0294) / 600));
  CHECK(ratio_of("serving: {schedule_conservativeness: 1.2}", 1).init == doctest::Approx(0.84));
  CHECK(ratio_of("serving: {schedule_conservativeness: 9}", 1).init == 1.0);
  CHECK_FALSE(sglang(read("{}")).reserve_full);
  CHECK(sglang(read("serving: {admission: reserve_full}")).reserve_full);
}

TEST_CASE("SGLang's knobs are read") {
  const EngineSettings settings = read_all(
      "serving: {engine: sglang_0_4_10, chunked_prefill_size: 512, enable_mixed_chunk: true,\n"
      "          max_running_requests: 64, max_prefill_tokens: 1024, router: least_tokens, step_gap: 250us,\n"
      "          schedule_policy: lpm, disable_radix_cache: true, disable_overlap_schedule: true,\n"
      "          disable_cuda_graph: false, cuda_graph_max_bs: 24, mem_fraction_static: 0.8, page_size: 64}");
  const ServingOptions& options = settings.serving;
  CHECK(options.token_budget == 512);
  CHECK(sglang(options).mixed_chunk);
  CHECK(options.max_running_requests == 64);
  CHECK(sglang(options).max_prefill_tokens == 1024);
  CHECK(options.router == Router::kLeastTokens);
  CHECK(options.step_gap.count() == doctest::Approx(250e-6));
  CHECK(sglang(options).longest_prefix_first);
  CHECK_FALSE(options.prefix_caching);
  CHECK_FALSE(options.overlap_schedule);
  CHECK(options.graphs.enabled);
  CHECK(options.graphs.size == GraphSize::kMax);
  CHECK(options.graphs.sizes == std::vector<std::int64_t>{1, 2, 4, 8, 16, 24});
  CHECK(settings.memory.static_fraction == 0.8);
  CHECK(settings.memory.kv_block_tokens == 64);
}

TEST_CASE("vLLM's defaults and knobs") {
  const EngineSettings defaults = read_all("serving: {engine: vllm_v1}");
  CHECK(defaults.serving.token_budget == 8192);
  CHECK(defaults.serving.max_running_requests == 1024);
  CHECK(std::any_cast<VllmKnobs>(defaults.serving.knobs).chunked_prefill);
  CHECK(defaults.serving.prefix_caching);
  CHECK(defaults.memory.default_block_tokens == 16);
  const EngineSettings settings = read_all(
      "serving: {engine: vllm_v1, max_num_batched_tokens: 2048, max_num_seqs: 256, gpu_memory_utilization: 0.9,\n"
      "          num_gpu_blocks_override: 1000, block_size: 32, enable_prefix_caching: false,\n"
      "          enable_chunked_prefill: false, long_prefill_token_threshold: 512, enforce_eager: false}");
  CHECK(settings.serving.token_budget == 2048);
  CHECK(settings.serving.max_running_requests == 256);
  CHECK_FALSE(settings.serving.prefix_caching);
  CHECK_FALSE(std::any_cast<VllmKnobs>(settings.serving.knobs).chunked_prefill);
  CHECK(std::any_cast<VllmKnobs>(settings.serving.knobs).long_prefill_token_threshold == 512);
  CHECK(settings.serving.graphs.enabled);
  CHECK(settings.serving.graphs.sizes.back() == 512);
  CHECK(settings.serving.graphs.size == GraphSize::kMax);
  CHECK(settings.memory.static_fraction == 0.9);
  CHECK(settings.memory.num_gpu_blocks == 1000);
  CHECK(settings.memory.kv_block_tokens == 32);
}

// v1/worker/dp_utils.py, _synchronize_dp_ranks: "all ranks will be padded out so that they run with the same number of tokens".
TEST_CASE("vLLM: with a prompt on one rank, all ranks run as many rows") {
  const ServingOptions options = read("serving: {engine: vllm_0_14, enforce_eager: false}");
  std::vector<RankBatch> ranks(8, RankBatch{.decode_tokens = 1});
  ranks[2] = {.prefill_tokens = 500, .prefill_pairs = 500.0 * 500 / 2, .sampled = 1};
  ranks[5] = {};
  CHECK(replay_padded(options.graphs, ranks));
  for (const RankBatch& rank : ranks) {
    CHECK(rank.tokens() == 512);  // captured from 256 on: every 16th
  }
  ranks[2].prefill_tokens = 513;
  CHECK_FALSE(replay_padded(options.graphs, ranks));
}

// vLLM v0.14's release notes: asynchronous scheduling by default, --no-async-scheduling. config/vllm.py: [1, 2, 4], every 8th
// below 256, every 16th from there to min(2 max_num_seqs, 512).
TEST_CASE("vLLM from v0.14 puts a batch together while the one before runs") {
  const EngineSettings defaults = read_all("serving: {engine: vllm_0_14}");
  CHECK(defaults.serving.overlap_schedule);
  CHECK(defaults.serving.graphs.size == GraphSize::kMax);
  CHECK_FALSE(read_all("serving: {engine: vllm_v1}").serving.overlap_schedule);
  CHECK_FALSE(read_all("serving: {engine: vllm_0_14, async_scheduling: false}").serving.overlap_schedule);
  const std::vector<std::int64_t>& sizes = defaults.serving.graphs.sizes;
  CHECK(sizes.size() == 3 + 31 + 17);  // 8 to 248 by 8; 256 to 512 by 16
  CHECK(sizes[33] == 248);
  CHECK(sizes[34] == 256);
  CHECK(sizes[35] == 272);
  CHECK(sizes.back() == 512);
  CHECK(read_all("serving: {engine: vllm_0_14, max_num_seqs: 128}").serving.graphs.sizes.back() == 256);
  // Sixteen sequences with three drafts each, twice: 128; a step of 24 tokens captures no more than 24.
  const std::string drafts =
      "serving: {engine: vllm_0_14, speculative: {draft_tokens: 3, acceptance: 0.7}, max_num_seqs: ";
  CHECK(read_all(drafts + "16}").serving.graphs.sizes.back() == 128);
  CHECK(read_all(drafts + "2, max_num_batched_tokens: 12}").serving.graphs.sizes ==
        std::vector<std::int64_t>{1, 2, 4, 8});
  CHECK(read_all("serving: {engine: vllm}").serving.engine == "vllm_0_14");
}

// tensorrt_llm/llmapi/llm_args.py of v1.1 and v1.2: TorchLlmArgs, KvCacheConfig, CudaGraphConfig, AttentionDpConfig.
TEST_CASE("TensorRT-LLM's defaults and knobs") {
  const EngineSettings defaults = read_all("serving: {engine: trtllm}");
  CHECK(defaults.serving.engine == "trtllm_1_x");
  CHECK(read_all("serving: {engine: trtllm_1_2}").serving.router == defaults.serving.router);
  CHECK(defaults.serving.token_budget == 8192);
  CHECK(defaults.serving.max_running_requests == 2048);
  CHECK(defaults.serving.longest_prompt == 8192);  // no chunks
  CHECK(defaults.serving.overlap_schedule);
  CHECK(defaults.serving.router == Router::kEvenRequests);
  CHECK_FALSE(defaults.serving.prefill_alignment.holds_any());
  CHECK(defaults.serving.graphs.prompt_sizes.empty());
  CHECK(defaults.serving.graphs.sizes.size() == 32 + 2);  // 1 to 32, 64, 128
  CHECK_FALSE(defaults.serving.graphs.pad);
  CHECK_FALSE(read("serving: {engine: trtllm}", 1).graphs.alike);
  CHECK(read("serving: {engine: trtllm}", 4).graphs.alike);
  CHECK_FALSE(read("serving: {engine: trtllm, cuda_graph_padding_enabled: true}", 4).graphs.alike);
  CHECK(defaults.memory.static_fraction == 0.9);
  CHECK(defaults.memory.account == MemoryAccount::kTrtllm);
  CHECK(defaults.memory.default_block_tokens == 32);
  const EngineSettings settings = read_all(
      "serving: {engine: trtllm_1_x, max_num_tokens: 1152, max_batch_size: 512, enable_chunked_prefill: true,\n"
      "          attention_dp_enable_balance: true, attention_dp_time_out_iters: 60,\n"
      "          attention_dp_batching_wait_iters: 0, disable_overlap_scheduler: true, enable_block_reuse: false,\n"
      "          use_cuda_graph: true, cuda_graph_padding_enabled: true, cuda_graph_max_batch_size: 16,\n"
      "          capture_num_tokens: [256, 128], free_gpu_memory_fraction: 0.75, tokens_per_block: 64,\n"
      "          router: round_robin, speculative: {draft_tokens: 3, acceptance: [0.8, 0.6]}}");
  const ServingOptions& s = settings.serving;
  CHECK(s.max_running_requests == 1152 / 4);  // a token and three drafts each
  CHECK(s.longest_prompt == 0);
  CHECK(s.prefill_alignment.timeout_iters == 60);
  CHECK(s.prefill_alignment.batching_wait_iters == 0);
  CHECK_FALSE(s.overlap_schedule);
  CHECK_FALSE(s.prefix_caching);
  CHECK(s.graphs.enabled);
  CHECK(s.graphs.pad);
  CHECK(s.graphs.sizes == std::vector<std::int64_t>{4, 8, 16, 32, 64});  // 1, 2, 4, 8, 16 requests
  CHECK(s.graphs.prompt_sizes == std::vector<std::int64_t>{128, 256});
  CHECK(s.router == Router::kRoundRobin);
  CHECK(s.speculative.acceptance == std::vector<double>{0.8, 0.6});
  CHECK(s.speculative.proposes_beside_prompts);
  CHECK(settings.memory.static_fraction == 0.75);
  CHECK(settings.memory.kv_block_tokens == 64);
  CHECK_THROWS_AS(read("serving: {engine: trtllm, attention_dp_enable_balance: true}", 1), InputError);
  // CudaGraphConfig.validate_cuda_graph_config: "When both are provided, max_batch_size must equal max(batch_sizes)."
  CHECK(read("serving: {engine: trtllm, cuda_graph_batch_sizes: [4, 1]}").graphs.sizes ==
        std::vector<std::int64_t>{1, 4});
  CHECK_NOTHROW(read("serving: {engine: trtllm, cuda_graph_batch_sizes: [1, 4], cuda_graph_max_batch_size: 4}"));
  for (const char* most : {"8", "2", "128"}) {
    const InputError other = test::error_of<InputError>([&] {
      read(std::string("serving: {engine: trtllm, cuda_graph_batch_sizes: [1, 4], cuda_graph_max_batch_size: ") + most +
           "}");
    });
    test::check_contains(other.what(), {"`serving.cuda_graph_max_batch_size`", "the largest of which is 4"});
  }
  CHECK_THROWS_AS(read("serving: {speculative: {draft_tokens: 1, acceptance: [0.8, 0.6]}}"), InputError);
  CHECK_THROWS_AS(read("serving: {speculative: {draft_tokens: 2, acceptance: [0.8, 1.6]}}"), InputError);
}

// CudaGraphConfig._generate_cuda_graph_batch_sizes: powers of two above 128, and the largest.
TEST_CASE("TensorRT-LLM captures 1, 2, 4, 8, 16 to 128, then doubles, since 1.3 every 64th, and the largest") {
  const auto sizes = trtllm_graph_sizes(600, true, true).value;
  CHECK(sizes.size() == 3 + 16 + 3);
  CHECK(std::vector(sizes.end() - 4, sizes.end()) == std::vector<std::int64_t>{128, 256, 512, 600});
  const auto fine = trtllm_graph_sizes(600, true, false).value;
  CHECK(std::vector(fine.end() - 9, fine.end()) ==
        std::vector<std::int64_t>{128, 192, 256, 320, 384, 448, 512, 576, 600});
  CHECK(trtllm_graph_sizes(600, false, false).value == trtllm_graph_sizes(600, false, true).value);
  CHECK(trtllm_graph_sizes(3, true, true).value == std::vector<std::int64_t>{1, 2, 3});
  CHECK(trtllm_graph_sizes(128, false, true).value.size() == 34);
}

TEST_CASE("budgets hold for a DP rank, or are divided among them") {
  CHECK(read("serving: {chunked_prefill_size: 4096, max_running_requests: 80}").token_budget == 4096);
  const ServingOptions divided =
      read("serving: {chunked_prefill_size: 4096, max_running_requests: 80, budgets: divided_by_dp}");
  CHECK(divided.token_budget == 512);
  CHECK(divided.max_running_requests == 10);
}

TEST_CASE("a knob of another engine is refused by name, with the knobs that there are") {
  const auto problem_of = [](const std::string& text) {
    try {
      read(text);
    } catch (const InputError& error) {
      return error.problem;
    }
    return std::string("accepted");
  };
  const std::string problem = problem_of("serving: {engine: vllm_v1, chunked_prefill_size: 4096}");
  CHECK(problem.find("knob of sglang_0_4_8") != std::string::npos);
  CHECK(problem.find("max_num_batched_tokens") != std::string::npos);
  CHECK(problem_of("serving: {max_num_seqs: 4}").find("knob of vllm_v1") != std::string::npos);
  CHECK(problem_of("serving: {engine: vllm_0_14, cuda_graph_sizes: [1]}").find("knob of vllm_v1") != std::string::npos);
  const std::string unknown = problem_of("serving: {engine: vllm_v1, max_num_seq: 4}");
  CHECK(unknown.find("max_num_seqs") != std::string::npos);
}

TEST_CASE("serving options that make no sense are refused where they stand") {
  struct Bad {
    const char* text;
    const char* key;
  };
  for (const Bad& bad :
       {Bad{"serving: {engine: vllm_v9}", "serving.engine"},
        Bad{"serving: {chunked_prefill_size: 0}", "serving.chunked_prefill_size"},
        Bad{"serving: {max_running_requests: -1}", "serving.max_running_requests"},
        Bad{"serving: {mixed_chunk: 3}", "serving.mixed_chunk"},
        Bad{"serving: {mixed_chunk: true, enable_mixed_chunk: true}", "serving.mixed_chunk"},
        Bad{"serving: {chunked_prefill_size: 4, budgets: divided_by_dp}", "serving.chunked_prefill_size"},
        Bad{"serving: {admission: greedy}", "serving.admission"},
        Bad{"serving: {cuda_graph_bs: [0]}", "serving.cuda_graph_bs"},
        Bad{"serving: {engine: vllm_v1, max_num_seqs: 512, max_num_batched_tokens: 256}", "serving.max_num_seqs"},
        Bad{"serving: {engine: vllm_v1, num_gpu_blocks: 5, num_gpu_blocks_override: 5}", "serving.num_gpu_blocks"},
        Bad{"serving: {router: sticky}", "serving.router"}, Bad{"serving: {step_gap: 5}", "serving.step_gap"},
        Bad{"serving: {chunk_prefill_size: 4096}", "serving.chunk_prefill_size"}}) {
    CAPTURE(bad.text);
    try {
      read(bad.text);
      FAIL("the options were accepted");
    } catch (const InputError& error) {
      CHECK(error.place.key == bad.key);
      CHECK(error.place.line == 1);
    }
  }
}

}  // namespace epsim
