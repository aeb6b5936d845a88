// Warnings of settings that are given and count for nothing.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/scenario/read_scenario.h"
#include "tests/support/errors.h"
#include "tests/support/small_scenario.h"

namespace epsim {
using test::small;

namespace {

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("a knob that is given and counts for nothing is a warning, and a resolved scenario has no more of them") {
  const std::string balanced = "attention_dp_enable_balance: true, ";
  struct Row {
    std::string serving, knob, why;  // no knob: no warning
  };
  for (const Row& row : {
           Row{"engine: sglang_0_5, prefill_delayer_max_delay_passes: 5", "prefill_delayer_max_delay_passes",
               "enable_prefill_delayer is off"},
           Row{"engine: sglang_0_5, prefill_delayer_token_usage_low_watermark: 0.5",
               "prefill_delayer_token_usage_low_watermark", "enable_prefill_delayer is off"},
           Row{"engine: sglang_0_5, prefill_delayer_max_delay_passes: 30", "", ""},  // the default
           Row{"engine: sglang_0_5, enable_spec_v2: true", "enable_spec_v2", "speculative.draft_tokens is 0"},
           Row{"engine: sglang_0_5, enable_spec_v2: true, disable_overlap_schedule: true, "
               "max_running_requests: 8, speculative: {draft_tokens: 1, acceptance: 0.8, drafter: none}",
               "enable_spec_v2", "disable_overlap_schedule is on"},
           Row{"engine: sglang_0_5, enable_spec_v2: true, max_running_requests: 8, speculative: {draft_tokens: 1, "
               "acceptance: 0.8, drafter: none}",
               "", ""},
           Row{"engine: trtllm, attention_dp_time_out_iters: 5", "attention_dp_time_out_iters",
               "attention_dp_enable_balance is off"},
           Row{"engine: trtllm, attention_dp_batching_wait_iters: 5", "attention_dp_batching_wait_iters",
               "attention_dp_enable_balance is off"},
           Row{"engine: trtllm, " + balanced + "attention_dp_time_out_iters: 5", "", ""},
           Row{"engine: trtllm, batch_wait_timeout_iters: 5", "batch_wait_timeout_iters", "several DP ranks"},
       }) {
    CAPTURE(row.serving);
    const Scenario s = small({"parallelism={attention_tp: 8}", "serving={" + row.serving + "}"});
    REQUIRE(s.serving.dp_ranks == 2);
    REQUIRE(s.warnings.size() == (row.knob.empty() ? 0 : 1));
    CHECK(read_scenario(Config::from_text(s.resolved, "resolved.yaml"), {}).warnings == s.warnings);
    if (!row.knob.empty()) {
      CHECK(s.warnings[0].starts_with("serving." + row.knob + " has no effect: "));
      CHECK(mentions(s.warnings[0], row.why));
    }
  }
  // One DP rank: a batch waits while it is both young and small.
  const auto alone = [](const std::string& knobs) {
    return small({"cluster.nodes=1", "serving={engine: trtllm, " + knobs + "}"}).warnings;
  };
  CHECK(alone("batch_wait_timeout_iters: 5") ==
        std::vector<std::string>{"serving.batch_wait_timeout_iters has no effect: batch_wait_max_tokens_ratio is 0."});
  CHECK(alone("batch_wait_timeout_iters: 5, batch_wait_max_tokens_ratio: 0.5").empty());
  // Pools that share the scenario's section say it once; one with its own says where.
  const std::string knob = "{engine: sglang_0_5, prefill_delayer_max_delay_passes: 5}";
  CHECK(small({"deployment={prefill: {}, decode: {}}", "serving=" + knob}).warnings.size() == 1);
  const Scenario own =
      small({"deployment={prefill: {serving: " + knob + "}, decode: {}}", "serving={engine: sglang_0_5}"});
  REQUIRE(own.warnings.size() == 1);
  CHECK(own.warnings[0].starts_with("deployment.prefill.serving.prefill_delayer_max_delay_passes "));
}

TEST_CASE("knobs of CUDA graphs are idle where graphs are off, but for what SGLang 0.5 reserves for the largest") {
  struct Row {
    std::string serving, knob;  // no knob: no warning
  };
  const std::string sglang = "disable_cuda_graph: true, engine: sglang_0_4_10",
                    vllm = "enforce_eager: true, engine: vllm_", trtllm = "use_cuda_graph: false, engine: trtllm";
  for (const Row& row : {Row{sglang, ""}, Row{sglang + ", cuda_graph_max_bs: 64", "cuda_graph_max_bs"},
                         Row{sglang + ", cuda_graph_bs: [1, 2]", "cuda_graph_bs"},
                         Row{sglang + ", disable_cuda_graph_padding: true", "disable_cuda_graph_padding"},
                         Row{"disable_cuda_graph: true, engine: sglang_0_5, cuda_graph_max_bs: 64", ""},
                         Row{vllm + "v1", ""}, Row{vllm + "v1, cuda_graph_sizes: [1, 2]", "cuda_graph_sizes"},
                         Row{vllm + "0_14, cudagraph_capture_sizes: [1, 2]", "cudagraph_capture_sizes"},
                         Row{trtllm, ""}, Row{trtllm + ", cuda_graph_max_batch_size: 64", "cuda_graph_max_batch_size"},
                         Row{trtllm + ", cuda_graph_batch_sizes: [1, 77]", "cuda_graph_batch_sizes"},
                         Row{trtllm + ", cuda_graph_padding_enabled: true", "cuda_graph_padding_enabled"}}) {
    CAPTURE(row.serving);
    const Scenario s = small({"serving={" + row.serving + "}"});
    const std::vector<std::string> expected(row.knob.empty() ? 0 : 1,
                                            "serving." + row.knob + " has no effect: CUDA graphs are off.");
    CHECK(s.warnings == expected);
    CHECK(read_scenario(Config::from_text(s.resolved, "resolved.yaml"), {}).warnings == expected);
  }
  // A decode pool may capture what the prefill pool's transport cannot.
  CHECK(small({"deployment={prefill: {}, decode: {}}", "serving={engine: sglang_0_4_10, cuda_graph_max_bs: 64}"})
            .warnings.empty());
}

TEST_CASE("an oversubscribed leaf that holds all nodes is a warning") {
  const auto warnings = [](const std::string& fabric) {
    return small({"cluster.fabric={kind: leaf_spine, " + fabric + "}"}).warnings;  // two nodes
  };
  CHECK(warnings("nodes_per_leaf: 2, oversubscription: 4") ==
        std::vector<std::string>{"cluster.fabric.oversubscription has no effect: one leaf holds all nodes "
                                 "(nodes_per_leaf)."});
  CHECK(warnings("nodes_per_leaf: 2").empty());
  CHECK(warnings("nodes_per_leaf: 1, oversubscription: 4").empty());
}

}  // namespace
}  // namespace epsim
