// What the simulator knows of a serving engine: its knobs under the names that they have there, what it chooses where
// the user does not, and its scheduler. engines.h has the table.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/memory/memory_model.h"
#include "sim/core/config.h"
#include "sim/core/units.h"
#include "sim/domain/parallelism.h"
#include "sim/scheduler/scheduler.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

// What an engine's defaults depend on.
struct EngineSite {
  int dp_ranks = 1;
  int gpus = 8;  // of the instance
  std::string gpu = "H100";
  Bytes gpu_memory{80.0 * 1073741824.0};
  bool deep_ep = false;          // tokens travel by DeepEP's kernels
  bool can_capture = false;      // CUDA graphs can hold the exchange of tokens (can_capture())
  bool fraction_stated = false;  // memory.static_fraction is given: the engine's own does not count
  bool pools = false;            // prefill and decode pools: each captures what its own transport allows
  InstanceRole role = InstanceRole::kWhole;
  std::string model_type = {};  // MoeSpec::model_type

  bool hopper() const { return gpu.starts_with('H'); }
  bool blackwell() const { return gpu.find("B200") != std::string::npos || gpu.find("B300") != std::string::npos; }
};

// What a scenario says of its CUDA graphs.
struct GraphWishes {
  std::optional<std::int64_t> largest;  // cuda_graph_max_bs
  bool pad = true, speculative = false;
};

// With a constructor: where a later member of a profile throws, GCC 12 destroys a member made from nested braces twice.
template <class T>
struct EngineDefault {
  EngineDefault(T of, std::string from) : value(std::move(of)), source(std::move(from)) {}

  T value;
  std::string source;
};

// Whether the values that a user gives hold for one DP rank (`budgets: per_rank`) or for all (`divided_by_dp`, as
// SGLang has it with DP attention).
struct Budgets {
  bool divided = false;
  int dp_ranks = 1;
  // One rank's share of the value; 0 stays 0.
  std::int64_t per_rank(const ConfigReader& in, const std::string& key, std::int64_t value) const;
};

// KV memory where the engine's knobs say something of it; the scenario's `memory` section says the rest.
struct EngineMemory {
  MemoryAccount account = MemoryAccount::kPlain;  // that static_fraction is meant in
  std::optional<double> static_fraction;
  std::optional<int> kv_block_tokens;
  int default_block_tokens = 1;
  std::optional<int> mla_block_tokens;  // of models with MLA, where it differs
  std::int64_t chunk_tokens = 0;        // of prompts in one step, which are cut to whole blocks; 0: they are not
  std::optional<std::int64_t> num_gpu_blocks;
  double peak_per_word = 0;  // bytes: MemoryOptions::profiled_peak over the vocabulary
  double window_share = 0;   // MemoryOptions
  bool drafter = false;      // MemoryOptions, with a drafter that has a layer
};

struct EngineSettings {
  ServingOptions serving;
  EngineMemory memory;
};

// Who moves the tokens where the user does not say.
struct TransportDefault {
  bool deep_ep;      // needs DeepEP's kernels, and several DP ranks
  bool decode_only;  // for decode instances
  const char *transport, *source;
  bool one_rank = false;  // for instances of one DP rank
  bool rack = false;      // for GPUs of one rack, whose links were measured with it
};

// How weights that all ranks have are held where the user does not say, with several DP ranks.
struct LayoutDefault {
  Sharding dense_ffn = Sharding::kTensorParallel, lm_head = Sharding::kTensorParallel;
  std::string dense_ffn_source = {}, lm_head_source = {};
};

// HuggingFace's tokenizers turn 1.93 MB of text into tokens a second (their pull request 1582, a vocabulary of 128,000), at some
// 4.5 bytes a token. DeepSeek's tokenizer takes 1.1 to 10 us a token (tt-inference-server issues 1920 and 2173).
inline const EngineDefault<Seconds> kHuggingFaceTokenizer{
    Seconds(2.3e-6), "HuggingFace tokenizers: 1.93 MB/s (their pull request 1582)"};

EngineDefault<Seconds> no_published_gap(const EngineSite& site, bool drafts);

struct EngineProfile {
  std::string_view name, summary;
  std::span<const Key> keys;  // its knobs
  // Reads the knobs; what all engines share is read before (speculation, DP ranks). Throws InputError.
  void (*read)(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out);
  std::unique_ptr<Scheduler> (*make_scheduler)(const ServingOptions& options, const RankContext& context);
  std::span<const TransportDefault> transports;  // the first that applies counts; the last needs nothing
  // Keys of `serving`, with their values, that new scenarios state against the defaults.
  std::span<const std::string_view> recipe = {};
  std::string_view kernels = {};  // whose kernels it runs (models/hardware/compute); empty: the first there are
  // The knob that bounds what it reserves by default beside weights and KV cache, for each DP rank; empty: no such knob.
  std::string_view reserve_knob = {};
  LayoutDefault layout = {};
  GraphSize graph_size = GraphSize::kMax;
  bool prefill_overlaps = true;               // prefill instances schedule during a step, where others do
  bool partial_ep = false;                    // experts over a part of the GPUs: ep_size may be any divisor
  bool one_or_all_tp = false;                 // attention TP is 1 (attention DP) or that of all GPUs
  bool whole_blocks = false;                  // loads no fp8 experts whose part on a GPU is not whole blocks
  std::string_view refuses_deepep_auto = {};  // with DP attention: what to say of it; empty where it does not
  std::string_view mxfp4_by_ep =
      {};  // why mxfp4 experts become bf16 on EP ranks of GPUs without fp4; empty: they do not
  // Models (model_type of their config.json) whose code has no path for DeepEP.
  std::span<const std::string_view> without_deep_ep = {};
  // Why KV caches of sparse attention are fp8 on Blackwell unless the scenario says otherwise; empty: they are not.
  std::string_view sparse_fp8_cache = {};
  // What goes wrong with experts that are moved or copied where no all-to-all backend moves the tokens; empty: nothing.
  std::string_view moved_experts = {};
  // Of the host, for one kernel of a step that no CUDA graph replays. Eager decode steps of Llama-3-8B at batch 1 take 8.23 ms
  // (FlashInfer) and 9.28 ms (Triton) with 32 layers of 12 kernels (models/step/eager_work.h): 21.4 and 24.2 us. SGLang
  // and vLLM agree within 1.3 % in DeepSpeed's pull request 8352.
  EngineDefault<Seconds> launch_time = {Seconds(23e-6),
                                        "SGLang without CUDA graphs, Llama-3-8B at batch 1 (sglang pull request 1401)"};
  // Of the host, between two steps whose schedules do not overlap; with speculative decoding, its draft's launches and the
  // wait for what is accepted too.
  EngineDefault<Seconds> (*scheduler_gap)(const EngineSite& site, bool drafts) = no_published_gap;
  // Replayed steps of decodes of up to so many tokens run shared experts on a stream of their own, beside gate and routed
  // experts; those of the busiest DP rank count, or of all together.
  EngineDefault<std::int64_t> shared_stream_tokens = {0, "one stream for all experts"};
  EngineDefault<std::int64_t> shared_stream_with_deep_ep = {0, "DeepEP's layers have one stream for all experts"};
  bool shared_stream_by_rank = false;
  bool fp4_rows = false;  // sends tokens of fp4 models in nvfp4
  // Of each request outside the scheduler before its first token is out.
  EngineDefault<Seconds> request_time = {Seconds(0), "no public figure of this version"};
  // Of the tokenizer, for each token of a prompt.
  EngineDefault<Seconds> token_time = {Seconds(0), "no public figure of this version"};
  // Time of the hosts for each layer whose experts move while steps wait: buffers, messages, waiting for each other.
  EngineDefault<Seconds> rebalanced_layer = {Seconds(0), "no public figure"};
  bool counts_since_look = false;         // a new plan is made from the loads since the last look
  int layers_in_background = 0;           // whose weights fit beside those in use while steps go on; 0: all
  std::string_view own_rebalance = {};    // how it moves weights where that is not as `rebalance` has it
  std::string_view near_copies = {};      // what `near` of a choice of copies is; empty: the choice's own default
  std::string_view aligned_prompts = {};  // the knob's value that holds prompts until DP ranks have them together
  std::string_view alignment_since = {};  // when engines got that knob, where this version lacks it
  // Tokens that a GPU may send at once in deepep_low_latency (SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK); 0: a whole batch,
  // in chunks, or by kernels of its own that DeepEP's stand in for.
  std::int64_t low_latency_tokens = 128;
  Router router = Router::kRoundRobin;          // among DP ranks
  Router prefill_router = Router::kRoundRobin;  // likewise, of a prefill instance
  // Among instances, of requests whose prefixes are known. Others would go to the instance with the fewest, which brings
  // requests of equal lengths into step with each other, as no real ones are.
  EngineDefault<Router> prefix_router = {Router::kRoundRobin, "no router of its own that goes by prefixes"};

  EngineDefault<Router> instance_router(bool prefixes) const {
    return prefixes ? prefix_router : EngineDefault<Router>{Router::kRoundRobin, "prompts have no known prefixes"};
  }
};

// The scheduler of a profile: `S` is built from options and context.
template <class S>
std::unique_ptr<Scheduler> make_scheduler_of(const ServingOptions& options, const RankContext& context) {
  return std::make_unique<S>(options, context);
}

// The value that is given, else the engine's, with its source beside it in the resolved scenario.
template <class T>
T or_engine(ConfigReader& in, const Key& key, const EngineDefault<T>& fallback) {
  return in.read<T>(key, fallback.value, fallback.source);
}
// Sizes of CUDA graphs, ascending.
std::vector<std::int64_t> captured_sizes(ConfigReader& in, const Key& key,
                                         const EngineDefault<std::vector<std::int64_t>>& fallback);
// Whether steps are replayed: as `key` says, which turns graphs on or off, or where the transport can be captured. With
// pools that default is not recorded: the resolved scenario would state one transport's for both.
void read_graph_use(ConfigReader& in, const Key& key, bool key_turns_on, const EngineSite& site, GraphOptions& out);

// A knob that counts only together with others.
struct BoundKnob {
  Key key;
  double value;                // as read; of a knob without a default of its own whether it is given is what matters
  bool counts;                 // as the others stand
  std::string_view otherwise;  // why it does not
  std::optional<double> usual = {};  // the engine's own value, where that is no constant
};
// Of knobs of CUDA graphs: with pools, those of another pool may be on.
inline bool graphs_count(const GraphOptions& graphs, const EngineSite& site) {
  return graphs.enabled || (site.pools && !graphs.stated);
}
inline constexpr std::string_view kGraphsOff = "CUDA graphs are off";
// Notes the knobs that do not count and depart from their default: one that only repeats it, as a resolved scenario does,
// misleads nobody.
void note_idle_knobs(const ConfigReader& in, std::initializer_list<BoundKnob> knobs, ServingOptions& out);

}  // namespace epsim
