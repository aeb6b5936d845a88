// What an engine would refuse or change: a warning with the reason.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/cluster/run_policy.h"
#include "tests/support/errors.h"
#include "tests/support/small_scenario.h"

namespace epsim {
using test::small;

namespace {

bool warns(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("what an engine would refuse or change is a warning with the reason") {
  const auto warnings = [](const std::vector<std::string>& settings) {
    std::string all;
    for (const std::string& warning : small(settings).warnings) {
      all += warning + "\n";
    }
    return all;
  };
  CHECK(warnings({}).empty());
  CHECK(warns(warnings({"serving.disable_cuda_graph=false"}), "nccl_p2p"));
  const std::string h200 = "cluster.node=DGX-H200";
  CHECK(warns(warnings({h200, "dispatch.transport=deepep_auto"}), "v0.4.8 refuses deepep_auto"));
  CHECK(warnings({h200, "dispatch.transport=deepep_auto", "serving.engine=sglang_0_4_10"}).empty());
  // 128 tokens a GPU, 8 GPUs a DP rank.
  CHECK(warnings({h200, "dispatch.transport=deepep_low_latency", "serving.chunked_prefill_size=1024"}).empty());
  CHECK(warns(warnings({h200, "dispatch.transport=deepep_low_latency", "serving.chunked_prefill_size=1025"}), "1024"));
  // 8 x 129 requests need 129 rows from each of a DP rank's GPUs.
  const std::string most = "serving={engine: sglang_0_5, chunked_prefill_size: 512, max_running_requests: ";
  CHECK(warns(warnings({h200, "dispatch.transport=deepep_low_latency", most + "1032}"}), "TOKENS_PER_RANK=129"));
  CHECK(warnings({h200, "dispatch.transport=deepep_low_latency", most + "1024}"}).empty());
  // Prompt and answer against OLMoE's max_position_embeddings.
  CHECK(warnings({"requests.input_tokens=4092", "requests.output_tokens=4"}).empty());
  CHECK(warns(warnings({"requests.input_tokens=4093", "requests.output_tokens=4"}), "has 4097 tokens"));
  const std::string clients =
      "requests={kind: closed_loop, concurrency: 10, input_tokens: 100, output_tokens: 4, count: ";
  CHECK(warns(warnings({clients + "9}"}), "requests.concurrency is 10, and there are 9 requests"));
  CHECK(warnings({clients + "10}"}).empty());
  // TensorRT-LLM's own kernels, for which DeepEP's stand in, take a whole batch (max_num_tokens).
  const std::string trtllm = "serving={engine: trtllm, max_num_tokens: 8192}";
  CHECK(warnings({h200, "dispatch.transport=deepep_low_latency", trtllm}).empty());
  // 0.4 s x (64 / 256)^3 an exchange, twice in each of OLMoE's 16 layers.
  CHECK(warns(warnings({"cluster.nodes=8", "network.model=max_min"}), "a step of 16 MoE layers 0.2 s"));
  CHECK(warnings({"network.model=max_min"}).empty());
  // 0.4 s x (32 / 256)^3 x 32.
  CHECK(warns(warnings({"cluster.nodes=4", "network.model=max_min"}), "a step of 16 MoE layers 0.025 s"));
  const std::string flows = "network.model=max_min", far = "cluster.nodes=8";
  CHECK(warns(warnings({far, flows}), "fair_share comes close"));
  CHECK(warns(warnings({far, flows, "dispatch.dedup=node"}), "two_tier comes close"));  // not of fair_share's ways
  // DeepSeek-R1 is published with a multi-token-prediction layer, OLMoE without.
  const std::string speculative = "speculative: {draft_tokens: 1, acceptance: 0.8}}",
                    drafts = "serving={engine: sglang_0_5, max_running_requests: 16, " + speculative;
  CHECK(warns(warnings({drafts}), "OLMoE-1B-7B is not known to have one"));
  CHECK(warnings({drafts, "serving.speculative.drafter=none"}).empty());
  CHECK_FALSE(warns(warnings({drafts, "model.architecture=deepseek-r1", "cluster.nodes=4"}), "not known to have one"));
  // Two DP ranks.
  CHECK(warns(warnings({"serving={engine: sglang_0_5, " + speculative}), "at most 48 requests at a time"));
  CHECK_FALSE(warns(warnings({drafts}), "requests at a time"));
  // gpt-oss in SGLang on Hopper: mxfp4 where an EP rank has all experts.
  const std::string gpt_oss = "model.architecture=gpt-oss-120b";
  CHECK(warns(warnings({h200, "model={architecture: gpt-oss-120b}"}), "turns the experts into bf16"));
  const std::string one_rank = "parallelism={attention_tp: 8, ep_size: 1}", allreduce = "dispatch.transport=allreduce";
  CHECK(warnings({h200, "model={architecture: gpt-oss-120b}", "serving={engine: sglang_0_5}", "cluster.nodes=1",
                  one_rank, allreduce})
            .empty());
  CHECK(warnings({h200, gpt_oss, "model.dtype=bf16"}).empty());
  CHECK(warnings({h200, gpt_oss, "serving={engine: vllm_v1}"}).empty());
  CHECK(warnings({"cluster.node=p6-b200.48xlarge", gpt_oss}).empty());
  CHECK(warns(warnings({"execution.two_batch_min_tokens=64"}), "overlap is not two_batch"));
  CHECK(warns(warnings({"execution.exchange_sm_share=0"}), "nothing overlaps"));
  CHECK(warnings({"execution={overlap: two_batch, two_batch_min_tokens: 64, exchange_sm_share: 0}"}).empty());
  CHECK(warns(warnings({"deployment.router=least_tokens"}), "serving.router"));
  CHECK(warnings({"deployment={instances: 2, router: least_tokens}"}).empty());
  const RunResult run = [&] {
    const Scenario s = small({"serving.disable_cuda_graph=false"});
    return run_policy(s, s.policies[0], {});
  }();
  CHECK(run.warnings.size() == 1);
}

}  // namespace epsim
