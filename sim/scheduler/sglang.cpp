// SGLang's loop for one DP rank.
//
//   Source : sgl-project/sglang v0.4.8 and v0.4.10. managers/scheduler.py: get_next_batch_to_run (a new prefill batch
//            first, else decode), get_new_batch_prefill, update_running_batch (decay of the ratio in decode steps
//            without retraction), _extend_requests_to_queue (retracted requests go to the end of the queue).
//            managers/schedule_policy.py: PrefillAdder (token budgets, `total_tokens >= rem_total_tokens` refuses,
//            chunks cut to whole pages), SchedulePolicy (fcfs; lpm, which falls back to fcfs above 128 waiting
//            requests). managers/schedule_batch.py: retract_decode (fewest generated tokens first, of equals the
//            longest input; until 20 more tokens of each remaining request fit; new ratio from what they generated).
//   Differs: a request that finds the rank idle always enters (the engine would cut its output to fit); with mixed
//            chunks the decodes' memory is set aside ahead of the prompts', and decodes without memory retract, where
//            the engine would stop with "out of memory"; the prompt under way is retracted as a last resort.
#include "sim/scheduler/sglang.h"

#include <algorithm>
#include <any>
#include <utility>
#include <vector>

#include "sim/core/check.h"

namespace epsim {
namespace {

constexpr std::size_t kLongestSortedQueue = 128;  // above it lpm does without

std::int64_t round_up(std::int64_t tokens, int page) { return (tokens + page - 1) / page * page; }

constexpr std::string_view kWithoutDeepEp[] = {"gpt_oss"};  // models/gpt_oss.py: forward raises; pull request 32615
constexpr TransportDefault kWithDeepEp{
    true, false, "deepep_auto",
    "SGLang with DeepEP turned on, --deepep-mode auto (server_args.py; with DP attention since its PR 7222)"};
// Without DeepEP: no InfiniBand, no measured kernels, or one DP rank.
constexpr TransportDefault kWithoutDeepEp048{false, false, "allreduce",
                                             "SGLang v0.4.8 without DeepEP (layers/dp_attention.py, _dp_gather)"};
constexpr TransportDefault kWithoutDeepEp0410{
    false, false, "allgather_allreduce",
    "SGLang v0.4.10 without DeepEP (layers/dp_attention.py, DPPaddingMode); since its PR 8539 allgather_reducescatter"};
constexpr TransportDefault kTransports048[] = {
    {true, true, "deepep_low_latency",
     "SGLang v0.4.8 with --enable-deepep-moe, decode instance as in its issue 6017 (its auto mode excludes DP "
     "attention, server_args.py)"},
    {true, false, "deepep_normal",
     "SGLang v0.4.8 with --enable-deepep-moe (its auto mode excludes DP attention, server_args.py)"},
    kWithoutDeepEp048};
constexpr TransportDefault kTransports0410[] = {kWithDeepEp, kWithoutDeepEp0410};
constexpr TransportDefault kTransports05[] = {
    kWithDeepEp,
    {false, false, "allreduce",
     "SGLang v0.5 with one DP rank (layers/communicator.py: after attention, and after the experts)", true},
    {false, false, "allgather_auto",
     "SGLang v0.5 without DeepEP (layers/dp_attention.py: all-reduces of all tokens in steps with prompts since "
     "v0.5.3)"}};

// With the other knobs of the delayer at their defaults.
constexpr std::string_view kAlignedPrompts = "enable_prefill_delayer=true";
constexpr std::string_view kDelayerSince = "SGLang has it since January 2026 (pull request 16269), off by default";

LayoutDefault over_all_gpus() {
  return {.dense_ffn = Sharding::kAllGpus,
          .lm_head = Sharding::kAllGpus,
          .dense_ffn_source = "SGLang without --moe-dense-tp-size 1 (layers/communicator.py, ScatterMode.FULL)",
          .lm_head_source = "SGLang without --enable-dp-lm-head (layers/logits_processor.py)"};
}

// server_args.py: triton_kernels where ep_size is 1; without them Mxfp4MoEMethod turns the weights into bf16.
constexpr std::string_view kMxfp4ByEp =
    "SGLang has no mxfp4 kernels for expert parallelism before Blackwell and turns the experts into bf16";

// Of a rebalance of DeepSeek's 58 layers "many cpu operations such as eplb-algorithm, creating p2p ops ... as ~1s", of which
// EPLB takes 42 ms (rebalance_options.h). v0.5 does as much; since its pull request 30829 (July 2026) experts travel 32 at a
// time, which is not modelled.
const EngineDefault<Seconds> kSglangRebalancedLayer{
    Seconds(16.5e-3), "SGLang: about 1 s of the CPU for DeepSeek's 58 layers (sglang issue 7879)"};

// Or fused into the routed ones' kernel as one more expert, which takes as long to within the expert's own weights.
const EngineDefault<std::int64_t> kSglangSharedStream{
    1024, "SGLang without DeepEP (models/deepseek_v2.py, forward_normal_dual_stream, DUAL_STREAM_TOKEN_THRESHOLD)"};

// DP attention over 16 H200 makes 51 tokens/s a rank of two requests, and 60.4 with an overlapping schedule: 39.2 and 33.1 ms a
// step; its ranks agree on every batch first. With drafts as well, which take more, nobody has published the difference.
// One rank with drafts: DeepSeek-R1 on 8 GPUs makes 140.52 tokens/s, and 159.71 with SGLANG_ENABLE_SPEC_V2, of 2.296 accepted
// a step: 16.34 and 14.38 ms. (Llama-3.1-8B on one GPU: 1.11 ms less; pull request 11398.)
// One rank without: Llama-3.1-8B makes 3053.86 tokens/s of 16 requests, and 3458.31 after the change: 5.239 and 4.627 ms.
EngineDefault<Seconds> sglang_gap(const EngineSite& site, bool drafts) {
  if (site.dp_ranks > 1) {
    return {Seconds(6.1e-3), "SGLang without overlap, 16 DP ranks (lmsys.org/blog/2025-07-17-mtp)"};
  }
  if (drafts) {
    return {Seconds(1.96e-3), "SGLang without its spec v2 (pull request 12128, DeepSeek-R1, 1 request)"};
  }
  return {Seconds(0.613e-3), "SGLang before and after its pull request 5608 (Llama-3.1-8B, 16 requests)"};
}

}  // namespace

// CUDA graphs by size: model_executor/cuda_graph_runner.py, v0.4.8 (sum of global_num_tokens) and v0.4.10 (most).
EngineProfile sglang_0_4_10() {
  return {
      .name = "sglang_0_4_10",
      .summary = "SGLang v0.4.10: the same, CUDA graphs sized by the busiest DP rank",
      .keys = sglang_keys(),
      .read = read_sglang,
      .make_scheduler = make_scheduler_of<SglangScheduler>,
      .transports = kTransports0410,
      .kernels = "sglang",
      .layout = over_all_gpus(),
      .graph_size = GraphSize::kMax,
      .partial_ep = true,
      .whole_blocks = true,  // QwenLM/Qwen3 issue 1485, sglang issue 26107
      .mxfp4_by_ep = kMxfp4ByEp,
      .without_deep_ep = kWithoutDeepEp,
      .moved_experts =
          "SGLang without an all-to-all backend answers wrongly with copies of experts before its pull request 32962 "
          "(July 2026), and with Qwen3's experts moved at all (pull request 39580).",
      .scheduler_gap = sglang_gap,
      .shared_stream_tokens = kSglangSharedStream,
      .rebalanced_layer = kSglangRebalancedLayer,
      .counts_since_look = true,
      .near_copies = "gpu",
      .aligned_prompts = kAlignedPrompts,
      .alignment_since = kDelayerSince};
}

EngineProfile sglang_0_4_8() {
  EngineProfile out = sglang_0_4_10();
  out.name = "sglang_0_4_8";
  out.summary = "SGLang v0.4.8: prefill first, new-token ratio, retraction, radix cache";
  out.transports = kTransports048;
  out.graph_size = GraphSize::kSum;
  out.partial_ep = false;
  out.refuses_deepep_auto =
      "SGLang v0.4.8 refuses deepep_auto with DP attention; sglang_0_4_10 takes it, or give each pool its own kernels.";
  return out;
}

// v0.5.9, January to February 2026; --prefill-decode-interval of August 2026.
// launch_time: a step of one prompt token takes 82.6 ms eager and 23.1 ms captured (sglang pull request 12160, October 2025;
// DeepSeek-V3 with cached tokens, one DP rank of a node), of 2,453 kernels by models/step/eager_work.h.
// request_time: the first token of 128 comes after 9.54 ms where the model's step takes 2.632 (tt-inference-server issue 3560, May
// 2026; chat completions, one request at a time).
EngineProfile sglang_0_5() {
  EngineProfile out = sglang_0_4_10();
  out.name = "sglang_0_5";
  out.summary = "SGLang v0.5.9: defaults by GPU of January 2026, the schedule may overlap with speculation";
  out.keys = sglang_0_5_keys();
  out.read = read_sglang_0_5;
  out.transports = kTransports05;
  out.reserve_knob = "cuda_graph_max_bs";
  out.launch_time = {Seconds(33.7e-6), "SGLang 0.5 without CUDA graphs, DeepSeek-V3 (sglang pull request 12160)"};
  out.request_time = {Seconds(6.9e-3), "SGLang over a mock model (tt-inference-server issue 3560)"};
  out.token_time = kHuggingFaceTokenizer;
  out.sparse_fp8_cache = "SGLang on Blackwell, sparse attention (server_args.py, kv_cache_dtype)";
  out.prefill_router = Router::kRandom;
  out.prefix_router = {Router::kCacheAware, "SGLang's router (router_args.py, policy)"};
  out.near_copies = {};
  out.alignment_since = {};
  return out;
}

SglangScheduler::SglangScheduler(const ServingOptions& options, const RankContext& context)
    : SglangScheduler(options, context, std::any_cast<const SglangKnobs&>(options.knobs)) {}

SglangScheduler::SglangScheduler(const ServingOptions& options, const RankContext& context, const SglangKnobs& knobs)
    : Scheduler(options, context,
                {.reserve_full = knobs.reserve_full, .reserved_decode_tokens = knobs.reserved_decode_tokens}),
      knobs_(knobs),
      new_token_ratio_(knobs.ratio.init),
      retracted_to_(options.role == InstanceRole::kDecode ? Requeue::kHost : Requeue::kBack) {}

void SglangScheduler::form_batch(Ticks now) {
  const bool mixed = knobs_.mixed_chunk;
  // Nobody enters in a step that retracts: what has just been freed is for those that stayed.
  const bool short_of_memory = mixed && decodes().size() > 0 && secure_decodes();
  head_lacks_blocks_ = short_of_memory;
  if (!short_of_memory) {
    add_prompts(now);
  }
  if (mixed) {
    if (batch().prefill_tokens == 0 && decodes().size() > 0 && !short_of_memory) {
      decay_ratio();
    }
    add_decodes();
  }
  if (knobs_.reserve_full && !waiting_.empty()) {
    const std::int32_t head = waiting_.front();
    head_lacks_blocks_ = !kv().has_room(whole_need(head, hit_blocks(head)));
  }
}

void SglangScheduler::form_decodes() {
  if (!knobs_.mixed_chunk && batch().prefill_tokens == 0 && decodes().size() > 0) {
    if (!secure_decodes()) {
      decay_ratio();
    }
    add_decodes();
  }
}

void SglangScheduler::decay_ratio() {
  new_token_ratio_ = std::max(new_token_ratio_ - knobs_.ratio.decay, knobs_.ratio.min);
}

// Tokens that can still be promised to newcomers.
double SglangScheduler::room_left(const Budget& budget) const {
  return static_cast<double>(kv().room() * kv().block_tokens()) - budget.promised;
}

bool SglangScheduler::could_start_prompt() const {
  return Scheduler::could_start_prompt() && !(full() && decodes().size() > 0);
}

void SglangScheduler::add_prompts(Ticks now) {
  if (hold_all_) {
    return;
  }
  if (partial().empty() && (waiting_.empty() || (full() && decodes().size() > 0))) {
    head_lacks_blocks_ = full() && full_of_blocks_ && !waiting_.empty();
    return;
  }
  order_queue();
  const std::int64_t with = knobs_.mixed_chunk ? decodes().step_tokens() : 0;
  Budget budget{options().token_budget - with, knobs_.max_prefill_tokens - with};
  if (!knobs_.reserve_full) {
    budget.promised = static_cast<double>(decodes().tokens_to_come(knobs_.ratio.clip_tokens)) * new_token_ratio_;
  }
  if (!partial().empty()) {
    continue_prompt(budget);
  }
  Entry entry = Entry::kNext;
  while (entry == Entry::kNext && !hold_prompts_ && budget.chunk > 0 && !waiting_.empty()) {
    entry = enter_head(budget, now);
  }
  if (entry == Entry::kNoMemory) {
    head_lacks_blocks_ = true;
    stop_admission(true);
  }
}

void SglangScheduler::continue_prompt(Budget& budget) {
  const std::int32_t request = partial().front();
  Active& a = active(request);
  const std::int64_t n = std::min({a.prompt - a.done, budget.chunk, room_tokens(a)});
  if (n <= 0) {
    return;
  }
  add_chunk(request, a, n);
  charge(budget, request, n, a.done == a.prompt);
}

// Output tokens that memory is kept for. Of a prefill instance one (disaggregation/prefill.py sets max_new_tokens to 1).
std::int64_t SglangScheduler::promised(std::int32_t request) const {
  return options().role == InstanceRole::kPrefill
             ? 1
             : std::min<std::int64_t>(record(request).output_tokens, knobs_.ratio.clip_tokens);
}

// Takes a chunk off the budgets. Only a prompt that ends promises its output.
void SglangScheduler::charge(Budget& budget, std::int32_t request, std::int64_t tokens, bool ends) {
  const std::int64_t rounded = round_up(tokens, kv().block_tokens());
  // A request that reserved all of its memory may stop inside a page.
  budget.chunk -= knobs_.reserve_full ? tokens : rounded;
  budget.input -= rounded;
  ++budget.entered;
  if (ends) {
    budget.promised += static_cast<double>(promised(request));
  }
}

// lpm: longest prefix match first, in the order of the queue among equals. Its place in the queue stays.
void SglangScheduler::order_queue() {
  if (!knobs_.longest_prefix_first || !caches_prefixes() || waiting_.size() < 2 ||
      waiting_.size() > kLongestSortedQueue) {
    return;
  }
  std::vector<std::pair<std::int64_t, std::int32_t>> order;
  order.reserve(waiting_.size());
  for (const std::int32_t request : waiting_) {
    order.emplace_back(-hit_blocks(request), request);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::transform(order.begin(), order.end(), waiting_.begin(), [](const auto& entry) { return entry.second; });
}

// Whether the request may enter: its prompt and its output against what is left after all promises. The blocks that it
// would be lent cannot be evicted for it.
bool SglangScheduler::fits_estimate(std::int32_t request, std::int64_t hit, const Budget& budget) const {
  if (knobs_.reserve_full) {
    return kv().has_room(whole_need(request, hit));
  }
  const bool idle = active().empty();
  const double need = static_cast<double>(prompt_of(request) - tokens_of_hit(hit) + promised(request) +
                                          options().kv_blocks_per_request * kv().block_tokens());
  const double lent = static_cast<double>(newly_used(request, hit) * kv().block_tokens());
  return idle || need < room_left(budget) - lent;
}

SglangScheduler::Entry SglangScheduler::enter_head(Budget& budget, Ticks now) {
  if (at_request_limit()) {
    stop_admission(false);
    return Entry::kStop;
  }
  const std::int32_t request = waiting_.front();
  const std::int64_t hit = hit_blocks(request);
  if (!fits_estimate(request, hit, budget)) {
    return Entry::kNoMemory;
  }
  return take_head(budget, hit, now);
}

SglangScheduler::Entry SglangScheduler::take_head(Budget& budget, std::int64_t hit, Ticks now) {
  const std::int32_t request = waiting_.front();
  const int page = kv().block_tokens();
  const std::int64_t rest = prompt_of(request) - tokens_of_hit(hit);
  const std::int64_t rounded = round_up(rest, page);
  if (rounded >= budget.input && budget.entered > 0) {
    return Entry::kStop;
  }
  const bool whole = (knobs_.reserve_full ? rest : rounded) <= budget.chunk;
  const std::int64_t n = whole ? rest : knobs_.reserve_full ? budget.chunk : budget.chunk / page * page;
  if (n <= 0) {
    return Entry::kStop;
  }
  Active& a = admit_head(hit, now);
  add_chunk(request, a, n);
  charge(budget, request, n, whole);
  if (!knobs_.reserve_full && room_left(budget) <= 0) {
    return Entry::kNoMemory;
  }
  return budget.input > 0 ? Entry::kNext : Entry::kStop;
}

// Memory for the decodes of this step, by retraction if need be; true when some request was retracted.
bool SglangScheduler::secure_decodes() {
  if (reserve_decodes()) {
    return false;
  }
  retract_decodes();
  // The prompt under way holds the rest, or prompts on their way do: of those the last to join, so that who decodes gets on.
  while (!reserve_decodes()) {
    EPSIM_CHECK(!partial().empty() || prompts_come(), "the last request of a rank fits its pool");
    const std::int32_t decoding = decodes().members().front().request;
    retract(!partial().empty() ? partial().front() : last_joining().value_or(decoding), retracted_to_);
  }
  return true;
}

void SglangScheduler::retract_decodes() {
  std::vector<DecodeSet::Member> order = decodes().members();  // with speculation from the back of the batch
  const auto generated = [&](const DecodeSet::Member& m) { return record(m.request).output_tokens - m.left - m.made; };
  if (options().speculative.draft_tokens == 0) {
    std::sort(order.begin(), order.end(), [&](const DecodeSet::Member& a, const DecodeSet::Member& b) {
      if (generated(a) != generated(b)) {
        return generated(a) > generated(b);
      }
      const std::int32_t in_a = record(a.request).input_tokens, in_b = record(b.request).input_tokens;
      return in_a != in_b ? in_a < in_b : a.request < b.request;
    });
  }
  const std::int64_t steps = knobs_.ratio.retract_steps;
  const auto enough = [&] {
    // Drafts may begin more pages than the tokens of the steps ahead fill.
    return kv().has_room(decodes().pages_to_begin()) &&
           (knobs_.retracts_for_next_step || kv().room() * kv().block_tokens() >= std::ssize(order) * steps);
  };
  bool first = true;
  while (order.size() > 1 && (first || !enough())) {
    first = false;
    retract(order.back().request, retracted_to_);
    order.pop_back();
  }
  double made = 0, wanted = 0;
  for (const DecodeSet::Member& m : order) {
    made += static_cast<double>(generated(m) + steps);
    wanted += record(m.request).output_tokens;
  }
  new_token_ratio_ = std::min(1.0, made / wanted);
}

}  // namespace epsim
