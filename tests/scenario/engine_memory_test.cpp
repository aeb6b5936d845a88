// How engines lay out their KV pools: blocks, windows, drafters.
#include <doctest/doctest.h>

#include <string>

#include "sim/scenario/read_scenario.h"
#include "tests/support/small_scenario.h"

namespace epsim {
using test::small;

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
  const std::string drafts = ", speculative: {draft_tokens: 1, acceptance: 0.8}";
  CHECK(memory("vllm_0_14", "DGX-H200", drafts).drafter);
  CHECK(memory("trtllm_1_x", "DGX-H200", drafts).drafter);
  CHECK_FALSE(memory("sglang_0_5", "DGX-H200", drafts).drafter);
  CHECK_FALSE(
      memory("vllm_0_14", "DGX-H200", ", speculative: {draft_tokens: 1, acceptance: 0.8, drafter: none}").drafter);
  CHECK_FALSE(memory("vllm_0_14", "DGX-H200").drafter);
}

}  // namespace epsim
