// How an instance serves requests, as far as engines agree on it. An engine's own knobs are a struct of its own.
#pragma once

#include <algorithm>
#include <any>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/choice.h"
#include "sim/core/units.h"
#include "sim/scheduler/prefill_alignment.h"

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
  kRoundRobin,  // in order of arrival
  // The rank with the lowest 4 x waiting + running requests; ties: the next DP rank in turn, the first instance. vLLM v0.14, v1/engine/core_client.py
  // (DPLBAsyncMPClient), which hears of the others every 100 ms; v0.10 compares waiting requests first, then running ones.
  kLeastRequests,
  kLeastTokens,  // the rank whose unfinished requests have the fewest input and output tokens; ties: the lowest rank
  // The rank with the fewest input tokens among those that have fewer requests than an even share; ties: fewer requests, then
  // the lowest rank. TensorRT-LLM v1.1, pyexecutor/executor_request_queue.py (_balance_requests_across_ranks).
  kEvenRequests,
  kRandom,
  kCacheAware,  // the rank that holds the most of its prefix, unless others are much less loaded (router.h)
};
template <>
inline constexpr auto kNames<Router> = choice<Router>({{"round_robin", Router::kRoundRobin},
                                                       {"least_requests", Router::kLeastRequests},
                                                       {"least_tokens", Router::kLeastTokens},
                                                       {"even_requests", Router::kEvenRequests},
                                                       {"random", Router::kRandom},
                                                       {"cache_aware", Router::kCacheAware}});

// What decides whether a step is replayed from a CUDA graph, and to which captured size the ranks are padded.
enum class GraphSize {
  kSum,  // the tokens of all DP ranks together
  kMax,  // those of the busiest DP rank
};

// CUDA graphs: a step that was captured is replayed, its batches padded to the captured size; idle ranks too, since
// they take part in the same collectives.
struct GraphOptions {
  bool enabled = false;
  bool stated = false;  // by the scenario, not by the transport
  GraphSize size = GraphSize::kSum;
  std::vector<std::int64_t> sizes;  // captured tokens, ascending, of steps of decodes
  // Those of steps with prompts, in piecewise graphs; empty: such steps run kernel by kernel.
  std::vector<std::int64_t> prompt_sizes;
  bool pad = true;     // false: only exact sizes are replayed
  bool mask = false;   // rows of padding go to no expert
  bool alike = false;  // only where all DP ranks decode as many, an idle one counted as one request
};

// Who proposes the tokens of speculative decoding.
enum class DrafterKind {
  kMtpLayer,  // a layer like the model's last, run once for each of them (sim/step/drafter.h)
  kNone       // it takes no time: n-grams, or a drafter elsewhere
};
template <>
inline constexpr auto kNames<DrafterKind> = choice<DrafterKind>({{"mtp_layer", DrafterKind::kMtpLayer},
                                                                 {"none", DrafterKind::kNone}});

// Speculative decoding with `draft_tokens` proposed tokens a step.
struct SpeculativeOptions {
  int draft_tokens = 0;  // 0 = off
  // Probability that a proposed token is accepted, given that those before it were, by its position; the last one counts
  // for all later positions. Not empty where tokens are proposed.
  std::vector<double> acceptance;
  double acceptance_at(std::int64_t position) const {
    return acceptance[std::min(static_cast<std::size_t>(position), acceptance.size() - 1)];
  }
  DrafterKind drafter = DrafterKind::kMtpLayer;
  bool has_layer() const { return draft_tokens > 0 && drafter == DrafterKind::kMtpLayer; }
  bool proposes_beside_prompts = false;  // all of them in steps with prompts too, the engine's
};

// Time that steps take beside their price, declared by the scenario or the engine's default.
struct GapOptions {
  Seconds graph{};      // of steps that a CUDA graph replays: its launch
  Seconds eager{};      // of all others
  Seconds scheduler{};  // of every step, unless the schedule overlaps with the step before it
};

inline constexpr std::string_view kDefaultEngine = "sglang_0_5";

struct ServingOptions {
  std::string engine{kDefaultEngine};
  std::any knobs;  // the engine's own, in the struct that its scheduler expects (SglangKnobs, VllmKnobs, TrtllmKnobs)
  InstanceRole role = InstanceRole::kWhole;
  int dp_ranks = 1;
  std::int64_t token_budget = 4096;  // tokens of a DP rank and step; which ones count is the engine's rule
  std::int64_t longest_prompt = 0;   // that the engine takes; 0 = any
  int max_running_requests = 0;      // admitted and unfinished, per rank; 0 = as many as the KV pool holds
  std::int64_t kv_blocks = 0;        // per rank; from the memory model
  int kv_block_tokens = 1;
  // Blocks that a request holds besides those of its tokens, however long it is: windows and linear-attention states.
  std::int64_t kv_blocks_per_request = 0;
  bool prefix_caching = true;  // of blocks that the trace names, or a request leaves when it gives its memory back
  Router router = Router::kRoundRobin;
  PrefillAlignment prefill_alignment;
  // Of prefill instances: a decode instance sets memory aside for a prompt before it is computed, so that its chunks
  // travel while later ones are computed.
  bool memory_first = false;
  bool decodes_await_prompts = false;  // decodes idle in a step in which any rank works on a prompt
  GraphOptions graphs;
  SpeculativeOptions speculative;
  // AttentionSpec::absorbed_below.
  double absorbed_below = 0;
  std::uint64_t seed = 0;  // of the draws of speculative decoding
  // The next batch is put together while a step runs, before its tokens are handed out (sim/cluster/instance.h).
  bool overlap_schedule = false;
  // New requests are looked for after so many steps of decodes alone, after every step with a prompt, and when idle.
  int receive_interval = 1;
  // Of each request, outside the scheduler before its first token is out: HTTP, detokenizer; for each of its prompt's tokens.
  Seconds request_time{}, token_time{};
  Seconds step_gap{};  // added to every step, as declared by the scenario
  GapOptions gaps;     // added to some
  // Replayed steps of decodes of up to so many tokens, of all DP ranks or of the busiest, run shared experts beside gate and
  // routed experts.
  std::int64_t shared_stream_tokens = 0;
  bool shared_stream_by_rank = false;
  Seconds launch_time{};  // of the host, for one kernel of a step that no CUDA graph replays
  std::vector<std::string>
      idle_knobs;  // warnings: of knobs that count for nothing here, each with the reason, and of limits
};

}  // namespace epsim
