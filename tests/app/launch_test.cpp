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
  check_contains(trt, {"disable_overlap_scheduler: true\\ncache_transceiver_config: {backend: DEFAULT, "
                       "max_tokens_in_buffer: 2048}",
                       "context_servers: {num_instances: 1, urls: [\"PREFILL_0:8000\"]}",
                       "trtllm-serve disaggregated -c disaggregated.yaml"});
  CHECK(trt.find("disable_overlap_scheduler") == trt.rfind("disable_overlap_scheduler"));  // of prefill alone
}

}  // namespace epsim::test
