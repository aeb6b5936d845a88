// How an instance serves requests: what the knobs of an engine profile come to (engine_profile.h reads them).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

// What an instance of a deployment does.
enum class InstanceRole : std::uint8_t {
  kWhole,    // prompts and decodes
  kPrefill,  // prompts, whose keys and values go to a decode instance
  kDecode,
};

inline constexpr std::string_view kInstanceRoleNames[] = {"whole", "prefill", "decode"};

// Which DP rank takes an arriving request.
enum class Router {
  kRoundRobin,   // in order of arrival
  kLeastTokens,  // the rank whose unfinished requests have the fewest input and output tokens; ties: the lowest rank
  kCacheAware,   // the rank that holds the most of its prefix, unless others are much less loaded (router.h)
};

// In which order a step's batch is put together (scheduler.h).
enum class SchedulerLoop { kSglang, kVllm };

// In which order waiting requests are looked at.
enum class SchedulePolicy {
  kFirstCome,
  kLongestPrefix,  // SGLang's lpm
};

// What a request needs before its first chunk may run.
enum class AdmissionRule {
  kReserveFull,    // blocks for all of its input and output: no running request ever runs out, nothing is retracted
  kNewTokenRatio,  // SGLang: its input and output, beside a share of what the running requests may still generate
  kOnDemand,       // vLLM: blocks for its first chunk
};

// The estimate of kNewTokenRatio.
//   Source : SGLang v0.4.8 global_config.py (0.7, 0.14, 600 steps, 20 steps), schedule_policy.py (4096), scheduler.py.
struct AdmissionOptions {
  AdmissionRule rule = AdmissionRule::kReserveFull;
  double init_ratio = 0.7;                  // 0.7 x schedule_conservativeness, at most 1
  double min_ratio = 0.7 * 0.14;            // init_ratio x 0.14
  double ratio_decay = 0.7 * 0.86 / 600.0;  // per decode step, from init to min in 600 of them
  std::int64_t clip_tokens = 4096;          // more output than this is not promised
  std::int64_t retract_steps = 20;          // a retraction makes room for this many tokens of each remaining request
};

// What decides whether a step is replayed from a CUDA graph, and to which captured size the ranks are padded.
enum class GraphSize {
  kSum,  // the tokens of all DP ranks together (SGLang 0.4.8)
  kMax,  // those of the busiest DP rank (SGLang 0.4.10)
  kOwn,  // each rank for itself (vLLM)
};

// CUDA graphs: a step that was captured is replayed, its batches padded to the captured size; idle ranks too, since
// they take part in the same collectives.
//   Source : SGLang model_executor/cuda_graph_runner.py, v0.4.8 (sum of global_num_tokens, 160 at most with DP
//            attention) and v0.4.10 (max of them); vLLM v0.9 config.py (1, 2, 4, then every 8 up to 512).
struct GraphOptions {
  bool enabled = false;
  GraphSize size = GraphSize::kSum;
  bool decode_only = true;          // SGLang; vLLM's piecewise graphs take prompts too
  std::vector<std::int64_t> sizes;  // captured tokens, ascending
  bool pad = true;                  // false: only exact sizes are replayed
};

// Speculative decoding with a drafter that proposes `draft_tokens` tokens a step (DeepSeek's MTP).
struct SpeculativeOptions {
  int draft_tokens = 0;   // 0 = off
  double acceptance = 0;  // probability that a proposed token is accepted, given that those before it were
};

// Time that steps take beside their price, as declared by the scenario.
struct GapOptions {
  Seconds graph{};      // of steps that a CUDA graph replays: its launch
  Seconds eager{};      // of all others: the launches of their kernels
  Seconds scheduler{};  // of every step, unless the schedule overlaps with the step before it
};

struct ServingOptions {
  std::string engine = "sglang_0_4_8";
  SchedulerLoop loop = SchedulerLoop::kSglang;
  InstanceRole role = InstanceRole::kWhole;
  int dp_ranks = 1;
  // Tokens per DP rank and step: SGLang's chunked_prefill_size (prompts only), vLLM's max_num_batched_tokens.
  std::int64_t chunked_prefill_size = 4096;
  std::int64_t max_prefill_tokens = 16384;  // SGLang: prompts that do not end below it wait unless they are the first
  bool chunked_prefill = true;              // vLLM: a prompt may be cut
  std::int64_t long_prefill_token_threshold = 0;  // vLLM: longest chunk; 0 = none
  // true: running decodes join the prefill batch and are taken off its token budget. false: a rank prefills while it
  // can, and decodes only in steps in which it could not prefill (SGLang's enable_mixed_chunk off).
  bool mixed_chunk = true;
  int max_running_requests = 0;  // admitted and unfinished, per rank; 0 = as many as the KV pool holds
  std::int64_t kv_blocks = 0;    // per rank; from the memory model
  int kv_block_tokens = 1;       // SGLang's page_size, vLLM's block_size
  // Blocks that a request holds besides those of its tokens, however long it is: windows and linear-attention states.
  std::int64_t kv_blocks_per_request = 0;
  bool prefix_caching = true;  // where the trace names prefix blocks
  SchedulePolicy schedule_policy = SchedulePolicy::kFirstCome;
  Router router = Router::kRoundRobin;
  AdmissionOptions admission;
  GraphOptions graphs;
  SpeculativeOptions speculative;
  std::uint64_t seed = 0;  // of the draws of speculative decoding
  // Decode instances: tokens kept free for each running request before another prompt is taken in.
  std::int64_t reserved_decode_tokens = 512;
  bool overlap_schedule = true;
  Seconds step_gap{};  // added to every step, as declared by the scenario
  GapOptions gaps;     // added to some
};

}  // namespace epsim
