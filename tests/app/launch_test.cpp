// How a deployment that `epsim capacity` recommends is started.
#include <doctest/doctest.h>

#include <string>

#include "sim/scheduler/engines.h"
#include "sim/verbs/launch/engine_launch.h"
#include "tests/app/process.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim::test {

TEST_CASE("every engine can be started") {
  for (const EngineProfile& engine : engine_profiles()) {
    CAPTURE(engine.name);
    CHECK(engine.name.starts_with(launch_of(engine.name).engine));
  }
}

// Names and versions of flags: sim/verbs/launch has their sources.
TEST_CASE("capacity starts vLLM and TensorRT-LLM as their versions take it, apart behind a proxy") {
  const TempDir dir;
  // 1024 and 16 tokens are 2 x 1024 in whole 1024s; eplb:8 has 8 copies of experts.
  const std::string ask =
      "capacity --model olmoe-1b-7b --dtypes bf16 --rate 50/s --input-tokens 1024 --output-tokens 16 --nodes DGX-H100 "
      "--sizes 1 --attention-tp 1 --quick -q --ttft p99=500ms ";
  const auto script = [&](const std::string& words) {
    const Outcome told = run_epsim(dir, ask + words + " -o plan --overwrite");
    REQUIRE_MESSAGE(told.exit_code == 0, told.err);
    return slurp(dir / "plan/launch.sh");
  };
  const auto lacks = [](const std::string& text, const char* words) { CHECK(text.find(words) == std::string::npos); };
  const std::string old = script("--engines vllm_v1 --policies eplb:8 --modes together");
  check_contains(old, {"--enable-eplb --num-redundant-experts 8", "--max-model-len 2048"});
  lacks(old, "--eplb-config");
  check_contains(script("--engines vllm --policies base --modes together"),  // EPLB moves experts without copies, too
                 {"--enable-eplb --eplb-config '{\"num_redundant_experts\": 0}'"});
  const std::string now = script("--engines vllm_0_14 --policies eplb:8 --modes apart");
  check_contains(now, {"--enable-eplb --eplb-config '{\"num_redundant_experts\": 8}'", "--max-model-len 2048",
                       "\nVLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname -I | cut -d ' ' -f 1) vllm serve",
                       "toy_proxy_server.py --port 8192 --prefiller-hosts PREFILL"});
  lacks(now, "--num-redundant-experts");
  lacks(now, "Spread requests over all instances");
  const std::string deep = "--set dispatch.transport=deepep_low_latency --modes together --policies contiguous ";
  check_contains(script(deep + "--engines vllm_v1"), {"\nVLLM_ALL2ALL_BACKEND=deepep_low_latency vllm serve"});
  check_contains(script(deep + "--engines vllm_0_14"), {" --all2all-backend deepep_low_latency"});
  const std::string trt = script("--engines trtllm --modes apart --policies contiguous");
  CHECK(trt.find("cuda_graph_config: {enable_padding: true}") != std::string::npos);
  CHECK(trt.find("cuda_graph_padding_enabled") == std::string::npos);
  check_contains(trt,
                 {"disable_overlap_scheduler: true\\nenable_attention_dp: true\\ncache_transceiver_config: {backend: "
                  "DEFAULT, max_tokens_in_buffer: 2048}\\n' > options.yaml",
                  "--trust_remote_code", "context_servers: {num_instances: 1, urls: [\"PREFILL_0:8000\"]}",
                  "trtllm-serve disaggregated -c disaggregated.yaml"});
  CHECK(trt.find("disable_overlap_scheduler") == trt.rfind("disable_overlap_scheduler"));  // of prefill alone
}

// Every knob that an engine has a flag for is in its command, in its unit, and no other is.
TEST_CASE("capacity states the knobs that were priced") {
  const TempDir dir;
  const std::string ask =
      "capacity --model olmoe-1b-7b --dtypes bf16 --rate 50/s --input-tokens 1024 --output-tokens 16 --nodes DGX-H100 "
      "--sizes 1 --modes together --policies contiguous --quick -q --ttft p99=500ms -o plan --overwrite ";
  const auto script = [&](const std::string& words) {
    const Outcome told = run_epsim(dir, ask + words);
    REQUIRE_MESSAGE(told.exit_code == 0, told.err);
    return slurp(dir / "plan/launch.sh");
  };
  // SGLang divides budgets by its 8 DP ranks: what was priced of a rank is 8 times as much, what was given in SGLang's
  // own unit is not. No limit of running requests is no flag.
  const std::string sglang = "--engines sglang --attention-tp 1 --set serving.chunked_prefill_size=4096 ";
  const std::string own = script(sglang +
                                 "--set serving.max_running_requests=0 --set serving.enable_prefill_delayer=true "
                                 "--set model.kv_dtype=fp8 --set serving.step_gap=1us");
  check_contains(own, {"# sglang_0_5 for olmoe-1b-7b", "the defaults of SGLang v0.5.9", "--chunked-prefill-size 32768 ",
                       " --enable-prefill-delayer", " --kv-cache-dtype fp8_e4m3",
                       "# The runs had serving.step_gap=1us; the command below has no flag for it."});
  for (const char* wrong : {"--max-running-requests", "serving.enable_prefill_delayer", "model.kv_dtype"}) {
    CHECK_MESSAGE(own.find(wrong) == std::string::npos, own);
  }
  check_contains(script(sglang + "--set serving.budgets=divided_by_dp --set serving.max_running_requests=512"),
                 {"--chunked-prefill-size 4096 --max-running-requests 512 "});
  check_contains(
      script("--engines vllm --attention-tp 8 --set serving.async_scheduling=false --set "
             "'serving.cudagraph_capture_sizes=[1, 2, 4]' --set "
             "'serving.speculative={draft_tokens: 2, acceptance: 0.5, drafter: none}'"),
      {"--speculative-config '{\"method\": \"ngram\", \"num_speculative_tokens\": 2, \"prompt_lookup_max\": 2}'",
       " --no-async-scheduling --cudagraph-capture-sizes 1 2 4"});
  check_contains(script("--engines trtllm --attention-tp 1 --set serving.enable_chunked_prefill=true --set "
                        "serving.attention_dp_enable_balance=true --set 'serving.cuda_graph_batch_sizes=[1, 8]'"),
                 {"attention_dp_config: {enable_balance: true}\\ncuda_graph_config: {batch_sizes: [1, 8], "
                  "enable_padding: true}\\n",
                  " --enable_chunked_prefill "});
  const std::string eager = script("--engines trtllm --attention-tp 1 --set serving.use_cuda_graph=false");
  check_contains(eager, {"cuda_graph_config: null\\n"});
  CHECK_MESSAGE(eager.find("enable_padding") == std::string::npos, eager);  // a key stands once
}

// TensorRT-LLM's processes are of one MPI job; DeepEP's queues and buffers hold the largest captured batch, 512 tokens.
TEST_CASE("capacity starts instances of several hosts as their engine takes it") {
  const TempDir dir;
  const std::string ask =
      "capacity --model deepseek-r1 --rate 2/s --input-tokens 2048 --output-tokens 16 --nodes DGX-H200 --sizes 2 "
      "--attention-tp 1 --modes together --policies contiguous --quick -q --ttft p99=20s -o plan --overwrite "
      "--engines ";
  REQUIRE(run_epsim(dir, ask + "trtllm").exit_code == 0);
  check_contains(slurp(dir / "plan/launch.sh"), {"# Once for each instance,",
                                                 "srun -N 2 --ntasks 16 --ntasks-per-node=8 --mpi=pmix "
                                                 "trtllm-llmapi-launch trtllm-serve $MODEL"});
  CHECK_FALSE(std::filesystem::exists(dir / "plan/leaderworkerset.yaml"));
  REQUIRE(run_epsim(dir, ask + "sglang").exit_code == 0);
  check_contains(slurp(dir / "plan/launch.sh"),
                 {"NVSHMEM_QP_DEPTH=2048 SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK=512 python3 -m sglang"});
  CHECK(std::filesystem::exists(dir / "plan/leaderworkerset.yaml"));
}

}  // namespace epsim::test
