// vLLM V1's loop for one DP rank.
//
//   Source : vllm-project/vllm v0.9 and v0.10, vllm/v1/core/sched/scheduler.py: schedule() (one token budget; running
//            requests in order of admission, then waiting ones unless something was preempted; a request that finds no
//            blocks preempts the latest admitted one, which goes to the head of the queue and computes again what
//            the prefix cache has lost of it; long_prefill_token_threshold caps a chunk); v1/core/kv_cache_manager.py: allocate_slots (blocks for the
//            tokens of this step only, no promise for later ones).
//            update_from_output(): a prefill instance's request leaves `running` with its prompt, its blocks when they
//            are sent. prefill_schedule_interval: schedule() as of its pull request 44558 (defer_prefills,
//            prefill_capacity_bound). v1/engine/core.py: step() schedules, runs and takes the tokens in one after
//            another; asynchronous scheduling is an experiment in v0.10, and off. From v0.14 (pull request 27614) it is
//            on: step_with_batch_queue() keeps two batches, sim/cluster/instance.h says which knows what.
//            Every DP rank runs as many rows as the longest in a step that a CUDA graph replays: v1/worker/dp_utils.py,
//            _synchronize_dp_ranks (should_dp_pad, the least cudagraph mode of all ranks); in v0.9 and v0.10
//            v1/worker/gpu_model_runner.py, get_dp_padding.
//   Differs: v0.9 and v0.10 without enforce_eager pad so in steps beyond the captured sizes, too. With asynchronous scheduling a request that ends at its longest output is in one more batch here, as it is
//            in vLLM where its end is not known before; decodes take their place in the budget ahead of all prompts
//            under way, also of those admitted earlier (it matters only with long_prefill_token_threshold), and are not
//            preempted for these; prefix blocks can be shared from the end of the step on, not within it, and a block
//            that two requests computed at once is kept once.

#include <algorithm>
#include <any>
#include <cstdint>
#include <optional>

#include "sim/scheduler/scheduler.h"
#include "sim/scheduler/vllm_knobs.h"

namespace epsim {
namespace {

// vLLM V1's rules: decodes first, then prompts, out of one token budget; requests enter while blocks are free, and the
// latest are preempted when they run out.
class VllmScheduler final : public Scheduler {
 public:
  VllmScheduler(const ServingOptions& options, const RankContext& context)
      : Scheduler(options, context,
                  {.leaves_when_handed_over = true,
                   .samples_again = true,
                   .keeps_received = true,
                   .shares_at_once = true,
                   .leaves_answers = true}),
        knobs_(std::any_cast<const VllmKnobs&>(options.knobs)) {}

 private:
  void form_batch(Ticks now) override;
  bool defers_prompts() const;
  bool preempt_for_decodes();
  bool continue_prompts(std::int64_t& budget);
  void enter_waiting(std::int64_t& budget, Ticks now);
  std::optional<std::int32_t> latest() const;
  std::int64_t longest_chunk(std::int64_t rest) const;

  VllmKnobs knobs_;
  bool prompts_were_left_ = false;  // by the latest step that could start some
};

constexpr TransportDefault kTransports[] = {
    {false, false, "allreduce",
     "vLLM v0.9 and v0.10 with one DP rank (models/deepseek_v2.py: after attention, and after the experts)", true},
    {false, false, "broadcast_allreduce",
     "vLLM v0.9 and v0.10 (envs.py, VLLM_ALL2ALL_BACKEND: naive); from v0.11 allgather_reducescatter"}};
constexpr TransportDefault kTransports014[] = {
    {false, false, "allreduce",
     "vLLM v0.14 with one DP rank (models/deepseek_v2.py: after attention, and after the experts)", true},
    {false, false, "allgather_reducescatter", "vLLM v0.14 (config/parallel.py, all2all_backend)"}};

// DeepSeek-V2-Lite, DP8 on 8 H100: a rearrangement takes 420 ms, 80 of them for the plan; of the 13.1 ms for each of
// the 26 layers, copies of 8 experts take 0.3 at NVLink's rate.
const EngineDefault<Seconds> kVllmRebalancedLayer{Seconds(12.8e-3),
                                                  "vLLM before its pull request 28369 (8 H100, DeepSeek-V2-Lite)"};

// The median time between tokens is 37.98 ms, and 36.40 with --async-scheduling (gpt-oss-120b on one H100, 256 running). That
// hid the scheduler alone; inputs are prepared beside the step since pull request 23569.
EngineDefault<Seconds> vllm_gap(const EngineSite& /*site*/, bool /*drafts*/) {
  return {Seconds(1.58e-3),
          "vLLM v0.10.2 with and without async scheduling (gpustack, docs/performance-lab/gpt-oss-120b)"};
}

}  // namespace

// request_time: vLLM 0.22.1 gives the first token of a prompt found in its prefix cache after 13.3 ms with 256 tokens and 27.3 with
// 4096 (Qwen3-4B, streamed, one request at a time), 12.4 ms + 3.65 us a token; a step of it takes 6.65 ms
// (github.com/openinfer-project/openinfer at 6de4908, docs/benchmarks/qwen3-4b-serving-vllm-rtx5090.md). Of the 3.65 us the tokenizer's
// are the default here; the rest is attention over what is cached, and hashing it.
EngineProfile vllm_v1() {
  return {.name = "vllm_v1",
          .summary = "vLLM V1 (v0.9, v0.10): one token budget, decodes first, preemption by recompute",
          .keys = vllm_keys(),
          .read = read_vllm,
          .make_scheduler = make_scheduler_of<VllmScheduler>,
          .transports = kTransports,
          .kernels = "vllm",
          .graph_size = GraphSize::kMax,
          .whole_blocks = true,  // vllm issue 17569; padding (its pull request 39046) was not merged
          .scheduler_gap = vllm_gap,
          .request_time = {Seconds(5.7e-3), "vLLM 0.22.1, Qwen3-4B from its prefix cache (openinfer, docs/benchmarks)"},
          .token_time = kHuggingFaceTokenizer,
          .rebalanced_layer = kVllmRebalancedLayer,
          .layers_in_background = 1,  // distributed/eplb/eplb_state.py: one buffer, emptied at the end of a pass
          .aligned_prompts = "prefill_schedule_interval=2",  // "interval=2 was optimal": vllm pull request 44558
          .alignment_since = "vLLM has it since June 2026 (pull request 44558), 1 by default",
          .low_latency_tokens = 0,  // in chunks of VLLM_MOE_DP_CHUNK_SIZE (envs.py)
          .router = Router::kLeastRequests,
          .prefill_router = Router::kLeastRequests};
}

EngineProfile vllm_0_14() {
  EngineProfile out = vllm_v1();
  out.name = "vllm_0_14";
  out.summary =
      "vLLM from v0.14: the same rules, each batch put together while the one before runs; memory as from v0.16";
  out.keys = vllm_0_14_keys();
  out.read = read_vllm_0_14;
  out.transports = kTransports014;
  out.shared_stream_tokens = {
      256,
      "vLLM v0.14 (fused_moe/layer.py, VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD; pull requests "
      "26440 and 28406)"};
  out.shared_stream_by_rank = true;
  return out;
}

void VllmScheduler::form_batch(Ticks now) {
  const bool deferred = defers_prompts();
  const bool preempted = preempt_for_decodes();
  add_decodes();
  if (deferred) {
    return;
  }
  std::int64_t budget = options().token_budget - decodes().step_tokens();
  const bool lacked = continue_prompts(budget);
  if (!preempted && !lacked) {
    enter_waiting(budget, now);
    prompts_were_left_ = !waiting_.empty();
  } else {
    head_lacks_blocks_ = !waiting_.empty();
  }
}

// Between the steps that start prompts a rank with decodes leaves prompts alone, new ones and those under way, unless
// the latest of these steps had more prompts than it could take.
bool VllmScheduler::defers_prompts() const { return hold_prompts_ && !prompts_were_left_ && decodes().size() > 0; }

// The running request that was admitted last; one that comes from a prefill instance does not run yet.
std::optional<std::int32_t> VllmScheduler::latest() const {
  std::optional<std::int32_t> out;
  std::int64_t last = -1;
  for (const auto& [request, a] : active()) {
    if (a.order > last && !comes(request)) {
      out = request;
      last = a.order;
    }
  }
  return out;
}

// Each decode that begins a page needs one; the latest requests give up theirs until the rest have enough.
bool VllmScheduler::preempt_for_decodes() {
  bool preempted = false;
  while (!reserve_decodes()) {
    retract(latest().value(), Requeue::kFront);
    preempted = true;
  }
  return preempted;
}

std::int64_t VllmScheduler::longest_chunk(std::int64_t rest) const {
  const std::int64_t longest = knobs_.long_prefill_token_threshold;
  return longest > 0 ? std::min(rest, longest) : rest;
}

// Goes on with the prompts under way; true when one of them lacked blocks. The latest admitted gives way; while that is
// a request that decodes in this step, the prompt waits.
bool VllmScheduler::continue_prompts(std::int64_t& budget) {
  bool lacked = false;
  for (std::size_t i = 0; i < partial().size() && budget > 0;) {
    const std::int32_t request = partial()[i];
    Active& a = active(request);
    const std::int64_t n = std::min(longest_chunk(a.prompt - a.done), budget);
    if (n <= room_tokens(a)) {
      add_chunk(request, a, n);
      budget -= n;
      ++i;
      continue;
    }
    lacked = true;
    if (const std::int32_t last = latest().value(); last == partial().back()) {
      retract(last, Requeue::kFront);
    } else {
      ++i;
    }
  }
  return lacked;
}

void VllmScheduler::enter_waiting(std::int64_t& budget, Ticks now) {
  while (budget > 0 && !waiting_.empty()) {
    if (at_request_limit()) {
      return;
    }
    const std::int32_t request = waiting_.front();
    const std::int64_t hit = hit_blocks(request);
    const std::int64_t found = tokens_of_hit(hit);
    const std::int64_t wanted = longest_chunk(prompt_of(request) - found);
    if (!knobs_.chunked_prefill && wanted > budget) {  // the budget does not cut it; the threshold may have
      return;
    }
    const std::int64_t n = std::min(wanted, budget);
    const std::int64_t held = knobs_.reserve_full_isl ? prompt_of(request) : found + n;
    const std::int64_t blocks = options().kv_blocks_per_request + kv().blocks_for(held) - kv().blocks_for(found);
    if (!kv().has_room(blocks + newly_used(request, hit))) {
      head_lacks_blocks_ = true;
      return;
    }
    add_chunk(request, admit_head(hit, now), n);
    budget -= n;
  }
}

}  // namespace epsim
