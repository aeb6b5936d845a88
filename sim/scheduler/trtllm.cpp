// TensorRT-LLM's loop for one DP rank (PyTorch backend, trtllm-serve).
//
//   Source : NVIDIA/TensorRT-LLM v1.1 and v1.2, tensorrt_llm/_torch/pyexecutor. scheduler.py: GuaranteedNoEvictPolicy (a
//            request enters when the blocks for all of its input and output are free beside those that running requests
//            have yet to take; the first that finds too few ends it), PyMicroBatchScheduler (requests in order of
//            arrival, so decodes before newer prompts; the first that exceeds max_num_tokens ends it; chunks first come
//            first served, cut to whole blocks). py_executor.py: _waiting_requests (prompts beside decodes wait for a
//            larger batch; attention DP has none of this), _balance_adp_requests (prefill_alignment.h),
//            _executor_loop_overlap, _handle_responses (a prompt on its way to a decode instance is no active request).
//            Its capacity_scheduler_policy has no other setting here.
//   Differs: what a prompt finds in the prefix cache counts once for each request that enters in a step; a request decodes
//            once more where its last token is not handed out yet (GENERATION_TO_COMPLETE keeps it out of the batch), and
//            with drafts the batch after a step knows how many of them were accepted (the engine finds out on the GPU).

#include <algorithm>
#include <any>
#include <cstdint>
#include <vector>

#include "sim/scheduler/scheduler.h"
#include "sim/scheduler/trtllm_knobs.h"

namespace epsim {
namespace {

// TensorRT-LLM's rules: decodes first, then prompts, out of one token budget; a request enters with memory for all of its
// input and output, so that none is ever evicted.
class TrtllmScheduler final : public Scheduler {
 public:
  TrtllmScheduler(const ServingOptions& options, const RankContext& context)
      : Scheduler(options, context, {.reserve_full = true, .leaves_when_handed_over = true, .keeps_received = true}),
        knobs_(std::any_cast<const TrtllmKnobs&>(options.knobs)) {}

 private:
  // Prompts that may run in a step: tokens of each one under way, then of requests from the head of the queue.
  struct Prompts {
    std::vector<std::int64_t> partial, entering;
    std::int64_t whole = 0;     // tokens of all of these requests' prompts
    bool lacks_blocks = false;  // the next in the queue lacks memory
    bool none() const { return partial.empty() && entering.empty(); }
  };

  void form_batch(Ticks now) override;
  bool could_start_prompt() const override { return !schedule().none(); }
  Prompts schedule() const;
  std::int64_t chunk(std::int64_t rest, std::int64_t budget) const;
  bool waits_for_more(const Prompts& prompts);

  TrtllmKnobs knobs_;
  std::int64_t waited_ = 0;  // steps in a row
};

constexpr TransportDefault kTrtllmTransports[] = {
    {false, false, "allreduce",
     "TensorRT-LLM with one DP rank (models/modeling_deepseekv3.py: after attention, and after the experts)", true},
    {false, false, "nvlink_one_sided",
     "TensorRT-LLM with attention DP on Grace (fused_moe/communication/communication_factory.py: NVLinkOneSided first)",
     false, true},
    {false, false, "allgather_reducescatter",
     "TensorRT-LLM with attention DP (modules/fused_moe: AlltoallMethodType.NotEnabled without MNNVL)"}};

// NVIDIA's deployment guides and recipes all have it: otherwise DP ranks seldom decode in CUDA graphs.
constexpr std::string_view kRecipe[] = {"cuda_graph_padding_enabled: true"};

const EngineDefault<std::int64_t> kSharedStream{1'000'000,  // any batch
                                                "TensorRT-LLM (models/modeling_deepseekv3.py, Deepseekv3MoE.forward: "
                                                "maybe_execute_in_parallel, in CUDA graphs)"};

}  // namespace

EngineProfile trtllm_1_x() {
  return {
      .name = "trtllm_1_x",
      .summary = "TensorRT-LLM 1.3: PyTorch backend, one token budget, decodes first, nothing is evicted",
      .keys = trtllm_keys(),
      .read = read_trtllm,
      .make_scheduler = make_scheduler_of<TrtllmScheduler>,
      .transports = kTrtllmTransports,
      .recipe = kRecipe,
      .kernels = "trtllm",
      .graph_size = GraphSize::kMax,
      .prefill_overlaps = false,
      .partial_ep = true,
      .one_or_all_tp = true,
      .shared_stream_tokens = kSharedStream,
      .shared_stream_with_deep_ep = kSharedStream,
      .fp4_rows = true,
      .token_time = kHuggingFaceTokenizer,
      .own_rebalance =
          "TensorRT-LLM's load balancer loads experts from the hosts' memory, some layers in every iteration, which is "
          "not modelled",
      .low_latency_tokens = 0,
      .router = Router::kEvenRequests,
      .prefill_router = Router::kEvenRequests};
}

EngineProfile trtllm_1_2() {
  EngineProfile out = trtllm_1_x();
  out.name = "trtllm_1_2";
  out.summary = "TensorRT-LLM 1.1, 1.2: fewer graph sizes, kernels of 1.2 (fp8 GEMMs on B200, MLA decode on H200)";
  out.read = read_trtllm_1_2;
  out.kernels = "trtllm_1_2";
  return out;
}

void TrtllmScheduler::form_batch(Ticks now) {
  const Prompts prompts = schedule();
  head_lacks_blocks_ = prompts.lacks_blocks;
  add_decodes();
  if (hold_prompts_ || prompts.none() || waits_for_more(prompts)) {
    return;
  }
  const std::vector<std::int32_t> under_way = partial();
  for (std::size_t i = 0; i < prompts.partial.size(); ++i) {
    add_chunk(under_way[i], active(under_way[i]), prompts.partial[i]);
  }
  for (const std::int64_t tokens : prompts.entering) {
    const std::int32_t request = waiting_.front();
    const std::int64_t hit = hit_blocks(request);
    if (!kv().has_room(whole_need(request, hit))) {  // the one before took what it would have found in the cache
      head_lacks_blocks_ = true;
      return;
    }
    add_chunk(request, admit_head(hit, now), tokens);
  }
}

std::int64_t TrtllmScheduler::chunk(std::int64_t rest, std::int64_t budget) const {
  if (rest <= budget) {
    return rest;
  }
  const std::int64_t unit = std::min<std::int64_t>(kv().block_tokens(), options().token_budget);
  return knobs_.chunked_prefill ? std::max<std::int64_t>(0, budget) / unit * unit : 0;
}

TrtllmScheduler::Prompts TrtllmScheduler::schedule() const {
  Prompts out;
  std::int64_t budget = options().token_budget - decodes().step_tokens();
  for (const std::int32_t request : partial()) {
    const Active& a = active().at(request);
    const std::int64_t n = chunk(a.prompt - a.done, budget);
    if (n == 0) {
      return out;
    }
    out.partial.push_back(n);
    out.whole += a.prompt;
    budget -= n;
  }
  std::int64_t blocks = 0, running = admitted();
  for (const std::int32_t request : waiting_) {
    const std::int64_t hit = hit_blocks(request);
    blocks += whole_need(request, hit);
    if (running++ >= options().max_running_requests) {
      return out;
    }
    if (!kv().has_room(blocks)) {
      out.lacks_blocks = true;
      return out;
    }
    const std::int64_t rest = prompt_of(request) - tokens_of_hit(hit);
    const std::int64_t n = chunk(knobs_.budget_counts_hits ? prompt_of(request) : rest, budget);
    if (n == 0) {
      return out;
    }
    out.entering.push_back(std::min(n, rest));
    out.whole += prompt_of(request);
    budget -= n;
  }
  return out;
}

// Beside decodes, prompts wait until the batch is large, or they have waited long enough.
bool TrtllmScheduler::waits_for_more(const Prompts& prompts) {
  if (options().dp_ranks > 1 || decodes().size() == 0) {
    return false;
  }
  const double large = knobs_.batch_wait_max_tokens_ratio * static_cast<double>(options().token_budget);
  const auto tokens = static_cast<double>(prompts.whole + decodes().step_tokens());
  if (waited_ >= knobs_.batch_wait_timeout_iters || tokens >= large) {
    waited_ = 0;
    return false;
  }
  ++waited_;
  return true;
}

}  // namespace epsim
