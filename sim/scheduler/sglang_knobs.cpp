#include "sim/scheduler/sglang_knobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "sim/scheduler/sglang_0_5_defaults.h"

namespace epsim {
namespace {

enum class Admission { kNewTokenRatio, kReserveFull };
enum class SchedulePolicy { kFcfs, kLpm };

}  // namespace

template <>
inline constexpr auto kNames<Admission> = choice<Admission>({{"new_token_ratio", Admission::kNewTokenRatio},
                                                             {"reserve_full", Admission::kReserveFull}});
template <>
inline constexpr auto kNames<SchedulePolicy> = choice<SchedulePolicy>({{"fcfs", SchedulePolicy::kFcfs},
                                                                       {"lpm", SchedulePolicy::kLpm}});

namespace {

constexpr KeyTable kSglangKeys({
    {"chunked_prefill_size", key::whole(Bound::kAny), key::by("the engine's, by GPU"),
     "Prompt tokens of a DP rank in one step; -1: no limit."},
    {"max_prefill_tokens", key::whole(Bound::kPositive), key::is(SglangKnobs{}.max_prefill_tokens),
     "A prompt that would exceed this waits, unless it is the first of the step."},
    {"enable_mixed_chunk", key::flag(), key::is(false), "Run decodes together with prefill chunks."},
    {"mixed_chunk", key::flag(), key::by("enable_mixed_chunk"), "Older name of enable_mixed_chunk."},
    {"max_running_requests", key::whole(), key::by("0; with speculative decoding 48 over the DP ranks"),
     "Requests running on a DP rank; 0: as many as the KV pool holds."},
    {"admission", key::one_of<Admission>(), key::is(Admission::kNewTokenRatio),
     "reserve_full: memory for the whole answer at admission, so that no request is retracted."},
    {"schedule_conservativeness", key::number(), key::is(1.0), "Scales the new-token ratio."},
    {"schedule_policy", key::one_of<SchedulePolicy>(), key::is(SchedulePolicy::kFcfs),
     "Order of the queue: first come, or longest cached prefix first."},
    {"disable_radix_cache", key::flag(), key::is(false), "No prefix cache."},
    {"disable_overlap_schedule", key::flag(), key::is(false),
     "Schedule between steps, when the tokens of the last one are known: scheduler_gap is added to each."},
    {"enable_prefill_delayer", key::flag(), key::is(false),
     "Hold new prompts back until every DP rank has one, so that a step works on prompts of all of them."},
    {"prefill_delayer_max_delay_passes", key::whole(Bound::kPositive), key::is(30),
     "Prompts start in this pass at the latest, counted from the first that held them."},
    {"prefill_delayer_token_usage_low_watermark", key::number(kPositiveShare), key::by("no watermark"),
     "Nothing is held while a rank with a waiting prompt uses less than this share of its KV tokens."},
    {"scheduler_recv_interval", key::whole(Bound::kPositive), key::is(1),
     "Steps of decodes alone until new requests are looked for; they are after each step with a prompt, and when "
     "idle."},
    {"attention_backend", key::one_of([] {
       return std::vector<std::string>{"fa3", "flashinfer", "triton", "trtllm_mla"};
     }),
     key::by("fa3 on Hopper, flashinfer or trtllm_mla (v0.5) on Blackwell, else triton"),
     "Of MLA: which batches with cached tokens before their prompts take the absorbed form."},
    {"disable_cuda_graph", key::flag(), key::by("the engine's, by transport"), "No CUDA graphs."},
    {"cuda_graph_max_bs", key::whole(Bound::kPositive), key::by("the largest of cuda_graph_bs"),
     "Largest captured batch."},
    {"cuda_graph_bs", key::wholes(Bound::kPositive), key::by("the engine's, by GPU: 1, 2, 4, 8, 16, 24 and so on"),
     "Captured batch sizes."},
    {"disable_cuda_graph_padding", key::flag(), key::is(false), "Replay a graph only at exactly a captured size."},
    {"mem_fraction_static", key::number(kPositiveShare), key::by("memory.static_fraction"),
     "SGLang's name of memory.static_fraction."},
    {"page_size", key::whole(Bound::kPositive), key::by("memory.kv_block_tokens"),
     "SGLang's name of memory.kv_block_tokens."},
});

constexpr KeyTable kSglang05Own({
    {"swa_full_tokens_ratio", key::number(kPositiveShare),
     key::by("0.8 for gpt-oss; 1 on Blackwell and for other models"),
     "Tokens that layers with sliding windows have memory for, over those of the other layers."},
    {"prefill_decode_interval", key::whole(), key::is(0),
     "Steps without prompts after a step with prompts, partly computed ones included; the same for all DP ranks."},
    {"enable_spec_v2", key::flag(), key::is(false),
     "SGLANG_ENABLE_SPEC_V2: the schedule overlaps with speculative decoding, too."},
});
constexpr auto kSglang05Keys = kSglang05Own + kSglangKeys;

// Whose defaults.
enum class Series { k04, k05 };

// SGLang's classes of GPUs, by the memory that nvidia-smi lists.
//   Source : SGLang v0.4.8 to v0.5.2, server_args.py: reserved memory is base + share x GPUs of the instance, plus
//            4 GiB with DP attention and 2 GiB with speculative decoding (ServerArgs.__post_init__). 80 GB with DP
//            attention over 48, 64, 96 GPUs gives 0.531, 0.431, 0.231. Largest graphs: cuda_graph_runner.py,
//            get_batch_sizes_to_capture; below 35 GiB cuda_graph_max_bs cuts them, later with fewer than 4 GPUs.
struct MemoryClass {
  double below_gib, base_gib, gib_per_gpu;
  std::int64_t chunk, largest_graph;
};
constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr MemoryClass kClasses[] = {
    {35, 2.8, 0.1, 2048, 80}, {90, 9.5, 0.5, 8192, 160}, {160, 12, 0.5, 8192, 256}, {kUnbounded, 32, 0, 16384, 512}};
constexpr double kDpAttentionGib = 4, kSpeculativeGib = 2;
constexpr std::int64_t kFewGpusLargestGraph = 8;  // below 35 GiB, where cuda_graph_max_bs has a default
// Cached tokens of a batch from which fa3 takes MLA's keys and values chunk by chunk rather than absorbed; flashinfer and
// triton absorb whatever their number: v0.4.8 models/deepseek_v2.py, dispatch_attn_forward_method and
// SGL_CHUNKED_PREFIX_CACHE_THRESHOLD.
constexpr double kChunkedPrefixCache = 8192;
constexpr std::int64_t kSpeculativeRunning = 48;  // of all DP ranks: ServerArgs.__post_init__, max_running_requests

const MemoryClass& class_of(const EngineSite& site) {
  return *std::find_if(std::begin(kClasses), std::end(kClasses),
                       [&](const MemoryClass& c) { return to_gib(site.gpu_memory) < c.below_gib; });
}

std::string sglang_source(const EngineSite& site, const char* more = "") {
  return fmt::format("SGLang on {}{} (server_args.py)", site.gpu, more);
}

}  // namespace

EngineDefault<std::int64_t> sglang_chunk(const EngineSite& site) {
  return {class_of(site).chunk, sglang_source(site, site.dp_ranks > 1 ? ", divided by the DP ranks" : "")};
}

EngineDefault<std::vector<std::int64_t>> sglang_graph_sizes(const EngineSite& site, const GraphWishes& wishes) {
  std::vector<std::int64_t> sizes;
  const auto add = [&](std::int64_t from, std::int64_t to, std::int64_t step) {
    for (std::int64_t n = from; n <= to; n += step) {
      sizes.push_back(n);
    }
  };
  if (wishes.speculative) {
    add(1, 8, 1), add(10, 32, 2), add(40, 56, 8), add(80, 160, 16);
  } else if (wishes.pad) {
    add(1, 1, 1), add(2, 2, 1), add(4, 4, 1), add(8, 160, 8);
  } else {
    add(1, 32, 1), add(48, 160, 16);
  }
  const bool small = &class_of(site) == &kClasses[0];
  add(168, std::min<std::int64_t>(256, class_of(site).largest_graph), 8);
  add(272, class_of(site).largest_graph, 16);
  const std::int64_t most = wishes.largest.value_or(!small           ? sizes.back()
                                                    : site.gpus >= 4 ? class_of(site).largest_graph
                                                                     : kFewGpusLargestGraph);
  std::erase_if(sizes, [&](std::int64_t n) { return n > most; });
  if (!sizes.empty()) {
    add(sizes.back() + 16, most, 16);
  }
  return {sizes, fmt::format("SGLang on {} (model_executor/cuda_graph_runner.py)", site.gpu)};
}

EngineDefault<std::int64_t> sglang_running(int dp_ranks, bool speculative) {
  if (!speculative) {
    return {0, "as many as the pool holds (SGLang stops at 2048 to 4096, model_runner.py)"};
  }
  return {std::max<std::int64_t>(1, kSpeculativeRunning / dp_ranks),
          "SGLang with speculative decoding, divided by the DP ranks (server_args.py)"};
}

EngineDefault<double> sglang_static_fraction(const EngineSite& site, bool speculative) {
  const MemoryClass& c = class_of(site);
  const double reserved = c.base_gib + c.gib_per_gpu * site.gpus + (site.dp_ranks > 1 ? kDpAttentionGib : 0) +
                          (speculative ? kSpeculativeGib : 0);
  const double share = (to_gib(site.gpu_memory) - reserved) / to_gib(site.gpu_memory);
  return {std::round(share * 1000) / 1000, sglang_source(site, fmt::format(", {} GPUs", site.gpus).c_str())};
}

namespace {

// Returns the largest captured batch in requests.
std::int64_t read_graphs(ConfigReader& in, const EngineSite& site, Series series, int drafts, ServingOptions& s) {
  GraphOptions& out = s.graphs;
  read_graph_use(in, kSglangKeys["disable_cuda_graph"], false, site, out);
  const auto largest = in.maybe<std::int64_t>(kSglangKeys["cuda_graph_max_bs"]);
  out.pad = !in.read<bool>(kSglangKeys["disable_cuda_graph_padding"]);
  // forward_deepep hands num_token_non_padded to the gate, which gives the rows behind no experts (layers/moe/topk.py);
  // forward_normal does not.
  out.mask = site.deep_ep;
  const GraphWishes wishes{largest, out.pad, drafts > 0};
  const auto usual = series == Series::k04 ? sglang_graph_sizes(site, wishes) : sglang_0_5_graph_sizes(site, wishes);
  out.sizes = captured_sizes(in, kSglangKeys["cuda_graph_bs"], usual);
  const bool counts = graphs_count(out, site), own_sizes = out.sizes != usual.value;
  const bool largest_counts = counts || series == Series::k05;  // its static fraction of memory follows the largest
  note_idle_knobs(in,
                  {{kSglangKeys["cuda_graph_max_bs"], 0, largest_counts, kGraphsOff},
                   {kSglangKeys["cuda_graph_bs"], static_cast<double>(own_sizes), largest_counts, kGraphsOff, 0},
                   {kSglangKeys["disable_cuda_graph_padding"], static_cast<double>(!out.pad), counts, kGraphsOff}},
                  s);
  // cuda_graph_runner.py, get_batch_sizes_to_capture: with DP attention the tokens of a graph divide over the GPUs of a rank.
  const std::int64_t over = series == Series::k05 && site.dp_ranks > 1 ? site.gpus / site.dp_ranks : 1;
  std::erase_if(out.sizes, [&](std::int64_t n) { return largest && n > *largest; });
  in.check(!out.sizes.empty(), "cuda_graph_max_bs", "no size of cuda_graph_bs is this small.");
  std::erase_if(out.sizes, [&](std::int64_t n) { return n * (1 + drafts) % over != 0; });
  in.check(!out.sizes.empty(), in.has("cuda_graph_bs") ? "cuda_graph_bs" : "cuda_graph_max_bs",
           fmt::format("SGLang captures sizes whose tokens divide over the {} GPUs of a DP rank; none is left.", over));
  const std::int64_t most = out.sizes.back();
  for (std::int64_t& size : out.sizes) {
    size *= 1 + drafts;  // sizes count requests; each has a token and its drafts in a step
  }
  return most;
}

void read_admission(ConfigReader& in, int dp_ranks, SglangKnobs& out) {
  out.reserve_full = in.read<Admission>(kSglangKeys["admission"]) == Admission::kReserveFull;
  double conservativeness = in.read<double>(kSglangKeys["schedule_conservativeness"]);
  if (dp_ranks > 1) {
    conservativeness *= 0.3;  // server_args.py, with DP attention
  }
  NewTokenRatio& ratio = out.ratio;
  ratio.init = std::min(1.0, 0.7 * conservativeness);
  ratio.min = ratio.init * 0.14;
  ratio.decay = (ratio.init - ratio.min) / 600.0;
}

// server_args.py of January 2026; the versions of engines.cpp have none, and it is off by default where there is one.
void read_prefill_delayer(ConfigReader& in, int dp_ranks, ServingOptions& s) {
  PrefillAlignment& out = s.prefill_alignment;
  const bool on = in.read<bool>(kSglangKeys["enable_prefill_delayer"]);
  const int passes = in.read<int>(kSglangKeys["prefill_delayer_max_delay_passes"]);
  out.token_usage_low_watermark = in.maybe<double>(kSglangKeys["prefill_delayer_token_usage_low_watermark"]);
  in.check(!on || dp_ranks > 1, "enable_prefill_delayer",
           "one DP rank has no other to wait for; SGLang refuses it without DP attention.");
  in.check(!on || !in.read<bool>(kSglangKeys["disable_overlap_schedule"]), "enable_prefill_delayer",
           "SGLang refuses it with disable_overlap_schedule.");
  out.max_delay_passes = on ? passes : 0;
  constexpr std::string_view kOff = "enable_prefill_delayer is off";
  note_idle_knobs(
      in,
      {{kSglangKeys["prefill_delayer_max_delay_passes"], static_cast<double>(passes), on, kOff},
       {kSglangKeys["prefill_delayer_token_usage_low_watermark"], out.token_usage_low_watermark.value_or(0), on, kOff}},
      s);
}

// SGLang divides its default by the DP ranks; one that is given counts as `budgets` says.
std::int64_t read_chunk(ConfigReader& in, const Budgets& budgets, const EngineSite& site, Series series) {
  EngineDefault<std::int64_t> fallback = series == Series::k04 ? sglang_chunk(site) : sglang_0_5_chunk(site);
  if (!budgets.divided) {
    fallback.value = std::max<std::int64_t>(1, fallback.value / site.dp_ranks);
  }
  return or_engine(in, kSglangKeys["chunked_prefill_size"], fallback);
}

// From which number of cached tokens on MLA's keys and values of a batch are taken chunk by chunk, not absorbed. v0.5:
// models/deepseek_common/attention_backend_handler.py, fa3 and flashinfer alike, trtllm_mla always.
double absorbed_below(Series series, const std::string& backend) {
  if (backend == "trtllm_mla") {
    return 0;
  }
  const bool chunks = backend == "fa3" || (series == Series::k05 && backend == "flashinfer");
  return chunks ? kChunkedPrefixCache : std::numeric_limits<double>::infinity();
}

std::string read_backend(ConfigReader& in, const EngineSite& site, Series series, ServingOptions& out) {
  const EngineDefault<std::string> of_0_4 = sglang_attention_backend(site);
  std::string backend = or_engine(in, kSglangKeys["attention_backend"],
                                  series == Series::k04 ? of_0_4 : sglang_0_5_attention_backend(site, of_0_4.value));
  in.check(series == Series::k05 || backend != "trtllm_mla", "attention_backend", "SGLang has trtllm_mla since v0.5.");
  // server_args.py: "TRTLLM MLA backend is only supported on Blackwell GPUs (SM100). Please use a different backend."
  in.check(site.blackwell() || backend != "trtllm_mla", "attention_backend",
           fmt::format("SGLang refuses trtllm_mla on {}: it needs a Blackwell GPU.", site.gpu));
  out.absorbed_below = absorbed_below(series, backend);
  return backend;
}

void read_series(ConfigReader& in, const Budgets& budgets, const EngineSite& site, Series series, EngineSettings& out);

}  // namespace

std::span<const Key> sglang_keys() { return kSglangKeys; }
std::span<const Key> sglang_0_5_keys() { return kSglang05Keys; }

EngineDefault<std::string> sglang_attention_backend(const EngineSite& site) {
  return {site.hopper()      ? "fa3"
          : site.blackwell() ? "flashinfer"
                             : "triton",
          fmt::format("SGLang on {}, MLA (model_executor/model_runner.py)", site.gpu)};
}

void read_sglang(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out) {
  read_series(in, budgets, site, Series::k04, out);
}

void read_sglang_0_5(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out) {
  read_series(in, budgets, site, Series::k05, out);
  ServingOptions& s = out.serving;
  s.prefill_alignment.decode_interval = in.read<int>(kSglang05Keys["prefill_decode_interval"]);
  const bool v2 = in.read<bool>(kSglang05Keys["enable_spec_v2"]);
  const bool may_overlap = !in.read<bool>(kSglangKeys["disable_overlap_schedule"]),
             drafts = s.speculative.draft_tokens > 0;
  s.overlap_schedule = s.overlap_schedule || (v2 && may_overlap);
  note_idle_knobs(in,
                  {{kSglang05Keys["enable_spec_v2"], static_cast<double>(v2), drafts && may_overlap,
                    drafts ? "disable_overlap_schedule is on" : "speculative.draft_tokens is 0"}},
                  s);
}

namespace {

// The largest captured batch that leaves half of the memory: what to state where the default leaves none. Empty: none does.
std::string smaller_graphs(const EngineSite& site, SglangReserve reserve) {
  for (std::int64_t largest = 256; largest > 0; largest /= 2) {
    reserve.largest_graph = largest;
    const double left = sglang_0_5_static_fraction(site, reserve).value;
    if (left >= 0.5) {
      return fmt::format(" (cuda_graph_max_bs {} leaves {} of it)", largest, left);
    }
  }
  return "";
}

// The share of memory for weights and KV cache, and how much of the KV cache keeps tokens beyond a model's windows.
void read_static_memory(ConfigReader& in, const EngineSite& site, Series series, const SglangReserve& reserved,
                        EngineSettings& out) {
  const EngineDefault<double> fraction = series == Series::k04 ? sglang_static_fraction(site, reserved.speculative)
                                                               : sglang_0_5_static_fraction(site, reserved);
  in.check(site.fraction_stated || fraction.value > 0 || in.has("mem_fraction_static"), "mem_fraction_static",
           fmt::format("{} reserves all of the memory for activations and CUDA graphs: state it, or a smaller "
                       "cuda_graph_max_bs and chunked_prefill_size{}.",
                       fraction.source, series == Series::k05 ? smaller_graphs(site, reserved) : ""));
  out.memory.static_fraction = site.fraction_stated ? in.maybe<double>(kSglangKeys["mem_fraction_static"])
                                                    : or_engine(in, kSglangKeys["mem_fraction_static"], fraction);
  out.memory.account = MemoryAccount::kSglang;
  // v0.5: model_runner_kv_cache_mixin.py, set_num_tokens_hybrid_swa; off with Blackwell's trtllm_mha (server_args.py, of
  // gpt-oss). v0.4 caches all tokens of all layers. A drafter's layer lies in the reserve.
  out.memory.window_share = series == Series::k04
                                ? 1.0
                                : or_engine(in, kSglang05Keys["swa_full_tokens_ratio"], sglang_0_5_window_share(site));
  if (series == Series::k05 && !sglang_0_5_shares_windows(site)) {
    note_idle_knobs(in,
                    {{kSglang05Keys["swa_full_tokens_ratio"], out.memory.window_share, false,
                      "SGLang keeps all tokens of this model's windows", 1.0}},
                    out.serving);
    out.memory.window_share = 1;
  }
}

void read_series(ConfigReader& in, const Budgets& budgets, const EngineSite& site, Series series, EngineSettings& out) {
  ServingOptions& s = out.serving;
  SglangKnobs knobs;
  const std::int64_t chunk = read_chunk(in, budgets, site, series);
  in.check(chunk > 0 || chunk == -1, "chunked_prefill_size", "this must be positive, or -1 for no limit.");
  s.token_budget =
      chunk == -1 ? std::numeric_limits<std::int32_t>::max() : budgets.per_rank(in, "chunked_prefill_size", chunk);
  knobs.max_prefill_tokens = in.read<std::int64_t>(kSglangKeys["max_prefill_tokens"]);
  const bool older_name = in.has("mixed_chunk");
  in.check(!older_name || !in.has("enable_mixed_chunk"), "mixed_chunk",
           "this is enable_mixed_chunk; give one of them.");
  knobs.mixed_chunk = in.read<bool>(older_name ? kSglangKeys["mixed_chunk"] : kSglangKeys["enable_mixed_chunk"]);
  const int drafts = s.speculative.draft_tokens;
  in.section("speculative")
      .check(drafts == 0 || !knobs.mixed_chunk, "draft_tokens",
             "SGLang has no mixed chunks with speculative decoding; turn them off.");
  const auto running = or_engine(in, kSglangKeys["max_running_requests"],
                                 sglang_running(budgets.divided ? 1 : site.dp_ranks, drafts > 0));
  s.max_running_requests = static_cast<int>(budgets.per_rank(in, "max_running_requests", running));
  if (drafts > 0 && !in.has("max_running_requests")) {
    s.idle_knobs.push_back(
        fmt::format("SGLang runs at most {} requests at a time with speculative decoding, {} on each DP rank; state "
                    "serving.max_running_requests for more.",
                    s.max_running_requests * s.dp_ranks, s.max_running_requests));
  }
  read_admission(in, s.dp_ranks, knobs);
  knobs.retracts_for_next_step = series == Series::k05;
  knobs.longest_prefix_first = in.read<SchedulePolicy>(kSglangKeys["schedule_policy"]) == SchedulePolicy::kLpm;
  s.prefix_caching = !in.read<bool>(kSglangKeys["disable_radix_cache"]);
  const std::string backend = read_backend(in, site, series, s);
  // disaggregation/prefill.py: a request leaves PrefillBootstrapQueue when its decode server has allocated for it, and
  // process_prefill_chunk calls send_kv_chunk for what has been computed of a prompt.
  s.memory_first = true;
  // "In speculative decoding, prefill batches and decode batches cannot be processed in the same DP attention group"
  // (scheduler.py, get_next_batch_to_run, since pull request 6081 of June 2025). A running stream stood still for all of
  // the 160 s that another rank's prompt took (issue 32549).
  s.decodes_await_prompts = drafts > 0 && site.dp_ranks > 1;
  // server_args.py turns it off with speculative decoding.
  s.overlap_schedule = !in.read<bool>(kSglangKeys["disable_overlap_schedule"]) && drafts == 0;
  read_prefill_delayer(in, site.dp_ranks, s);
  // managers/scheduler_recv_skipper.py: a step of decodes counts 1, one with prompts 1000.
  s.receive_interval = in.read<int>(kSglangKeys["scheduler_recv_interval"]);
  const std::int64_t largest_graph = read_graphs(in, site, series, drafts, s);
  const std::int64_t prompts = chunk == -1       ? knobs.max_prefill_tokens
                               : budgets.divided ? chunk
                                                 : chunk * std::int64_t{site.dp_ranks};
  read_static_memory(in, site, series, {prompts, largest_graph, drafts > 0}, out);
  out.memory.kv_block_tokens = in.maybe<int>(kSglangKeys["page_size"]);
  out.memory.default_block_tokens = backend == "trtllm_mla" ? 64 : 1;  // server_args.py: it takes pages of 32 or 64
  // server_args.py refuses any that is not a whole number of pages (pull request 8973).
  out.memory.chunk_tokens = chunk == -1 || knobs.reserve_full ? 0 : s.token_budget;
  s.knobs = knobs;
}

}  // namespace

}  // namespace epsim
