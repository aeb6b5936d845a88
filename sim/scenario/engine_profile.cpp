#include "sim/scenario/engine_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace epsim {
namespace {

constexpr std::string_view kSglangKnobs[] = {
    "chunked_prefill_size",       "max_prefill_tokens",      "enable_mixed_chunk",
    "max_running_requests",       "mem_fraction_static",     "page_size",
    "schedule_conservativeness",  "schedule_policy",         "disable_radix_cache",
    "disable_cuda_graph",         "cuda_graph_max_bs",       "cuda_graph_bs",
    "disable_cuda_graph_padding", "disable_overlap_schedule"};
constexpr std::string_view kVllmKnobs[] = {"max_num_batched_tokens",
                                           "max_num_seqs",
                                           "gpu_memory_utilization",
                                           "block_size",
                                           "num_gpu_blocks",
                                           "num_gpu_blocks_override",
                                           "enable_prefix_caching",
                                           "enable_chunked_prefill",
                                           "long_prefill_token_threshold",
                                           "enforce_eager",
                                           "cuda_graph_sizes"};

constexpr EngineProfile kProfiles[] = {
    {"sglang_0_4_8", "SGLang v0.4.8: prefill first, new-token ratio, retraction, radix cache", SchedulerLoop::kSglang,
     GraphSize::kSum, kSglangKnobs},
    {"sglang_0_4_10", "SGLang v0.4.10: the same, CUDA graphs sized by the busiest DP rank", SchedulerLoop::kSglang,
     GraphSize::kMax, kSglangKnobs, true},
    {"vllm_v1", "vLLM V1 (v0.9, v0.10): one token budget, decodes first, preemption by recompute", SchedulerLoop::kVllm,
     GraphSize::kOwn, kVllmKnobs}};

bool has_knob(const EngineProfile& profile, std::string_view knob) {
  return std::find(profile.knobs.begin(), profile.knobs.end(), knob) != profile.knobs.end();
}

void refuse_other_engines_knobs(const ConfigReader& in, const EngineProfile& own) {
  for (const std::string& key : in.keys()) {
    if (has_knob(own, key)) {
      continue;
    }
    for (const EngineProfile& other : kProfiles) {
      if (has_knob(other, key)) {
        in.fail(key, fmt::format("this is a knob of {}, and the engine is {}; its knobs: {}.", other.name, own.name,
                                 fmt::join(own.knobs, ", ")));
      }
    }
  }
}

std::vector<std::int64_t> captured_sizes(ConfigReader& in, const std::string& key,
                                         const EngineDefault<std::vector<std::int64_t>>& fallback) {
  std::vector<std::int64_t> sizes = in.optional(key, fallback.value, Bound::kPositive);
  in.default_from(key, fallback.source);
  std::sort(sizes.begin(), sizes.end());
  in.check(!sizes.empty(), key, "at least one size is captured.");
  return sizes;
}

template <class T>
T or_engine(ConfigReader& in, const std::string& key, const EngineDefault<T>& fallback, Bound bound) {
  const T value = in.optional<T>(key, fallback.value, bound);
  in.default_from(key, fallback.source);
  return value;
}

EngineDefault<bool> no_graphs(const EngineSite& site) {
  return {!site.can_capture, site.can_capture ? "the engine captures decode steps"
                                              : "this transport's messages vary in size and cannot be captured"};
}

void read_sglang_graphs(ConfigReader& in, const EngineSite& site, int drafts, GraphOptions& out) {
  out.enabled = !or_engine(in, "disable_cuda_graph", no_graphs(site), Bound::kAny);
  const auto largest = in.maybe<std::int64_t>("cuda_graph_max_bs", Bound::kPositive);
  out.pad = !in.optional("disable_cuda_graph_padding", false);
  out.sizes = captured_sizes(in, "cuda_graph_bs", sglang_graph_sizes(site, {largest, out.pad, drafts > 0}));
  std::erase_if(out.sizes, [&](std::int64_t n) { return largest && n > *largest; });
  in.check(!out.sizes.empty(), "cuda_graph_max_bs", "no size of cuda_graph_bs is this small.");
  for (std::int64_t& size : out.sizes) {
    size *= 1 + drafts;  // sizes count requests; each has a token and its drafts in a step
  }
}

// The engine's value for all DP ranks or for one, as `budgets` says; 0 stays 0.
struct Budgets {
  bool divided = false;
  int dp_ranks = 1;
  std::int64_t per_rank(const ConfigReader& in, const std::string& key, std::int64_t value) const {
    const std::int64_t share = divided ? value / dp_ranks : value;
    in.check(value <= 0 || share > 0, key, fmt::format("divided by {} DP ranks, nothing is left of it.", dp_ranks));
    return share;
  }
};

void read_sglang_admission(ConfigReader& in, ServingOptions& out) {
  const std::string rule = in.choice("admission", {"new_token_ratio", "reserve_full"}, "new_token_ratio");
  AdmissionOptions& a = out.admission;
  a.rule = rule == "reserve_full" ? AdmissionRule::kReserveFull : AdmissionRule::kNewTokenRatio;
  double conservativeness = in.optional("schedule_conservativeness", 1.0);
  if (out.dp_ranks > 1) {
    conservativeness *= 0.3;  // server_args.py, with DP attention
  }
  a.init_ratio = std::min(1.0, 0.7 * conservativeness);
  a.min_ratio = a.init_ratio * 0.14;
  a.ratio_decay = (a.init_ratio - a.min_ratio) / 600.0;
}

// SGLang divides its default by the DP ranks; one that is given counts as `budgets` says.
std::int64_t read_chunk(ConfigReader& in, const Budgets& budgets, const EngineSite& site) {
  EngineDefault<std::int64_t> fallback = sglang_chunk(site);
  if (!budgets.divided) {
    fallback.value = std::max<std::int64_t>(1, fallback.value / site.dp_ranks);
  }
  return or_engine(in, "chunked_prefill_size", fallback, Bound::kAny);
}

int draft_tokens(ConfigReader& in) { return in.section("speculative").optional<int>("draft_tokens", 0); }

void read_sglang(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out) {
  ServingOptions& s = out.serving;
  const std::int64_t chunk = read_chunk(in, budgets, site);
  in.check(chunk > 0 || chunk == -1, "chunked_prefill_size", "this must be positive, or -1 for no limit.");
  s.chunked_prefill_size =
      chunk == -1 ? std::numeric_limits<std::int32_t>::max() : budgets.per_rank(in, "chunked_prefill_size", chunk);
  s.max_prefill_tokens = in.optional<std::int64_t>("max_prefill_tokens", 16384, Bound::kPositive);
  const bool older_name = in.has("mixed_chunk");
  in.check(!older_name || !in.has("enable_mixed_chunk"), "mixed_chunk",
           "this is enable_mixed_chunk; give one of them.");
  s.mixed_chunk = older_name ? in.required<bool>("mixed_chunk") : in.optional("enable_mixed_chunk", false);
  const int drafts = draft_tokens(in);
  const auto running = or_engine(in, "max_running_requests",
                                 sglang_running(budgets.divided ? 1 : site.dp_ranks, drafts > 0), Bound::kNotNegative);
  s.max_running_requests = static_cast<int>(budgets.per_rank(in, "max_running_requests", running));
  read_sglang_admission(in, s);
  s.schedule_policy = in.choice("schedule_policy", {"fcfs", "lpm"}, "fcfs") == "lpm" ? SchedulePolicy::kLongestPrefix
                                                                                     : SchedulePolicy::kFirstCome;
  s.prefix_caching = !in.optional("disable_radix_cache", false);
  s.overlap_schedule = !in.optional("disable_overlap_schedule", false);
  read_sglang_graphs(in, site, drafts, s.graphs);
  const EngineDefault<double> fraction = sglang_static_fraction(site, drafts > 0);
  out.memory.static_fraction = site.fraction_stated || fraction.value <= 0
                                   ? in.maybe<double>("mem_fraction_static", Bound::kPositive)
                                   : or_engine(in, "mem_fraction_static", fraction, Bound::kPositive);
  out.memory.account = MemoryAccount::kSglang;
  out.memory.static_fraction_key = "mem_fraction_static";
  out.memory.kv_block_tokens = in.maybe<int>("page_size", Bound::kPositive);
}

void read_vllm(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out) {
  ServingOptions& s = out.serving;
  s.admission.rule = AdmissionRule::kOnDemand;
  s.chunked_prefill_size =
      budgets.per_rank(in, "max_num_batched_tokens",
                       or_engine(in, "max_num_batched_tokens", vllm_batched_tokens(site), Bound::kPositive));
  s.max_running_requests = static_cast<int>(
      budgets.per_rank(in, "max_num_seqs", or_engine(in, "max_num_seqs", vllm_sequences(site), Bound::kPositive)));
  in.check(s.max_running_requests <= s.chunked_prefill_size, "max_num_seqs",
           fmt::format("{} sequences do not fit a step of {} tokens (max_num_batched_tokens).", s.max_running_requests,
                       s.chunked_prefill_size));
  s.chunked_prefill = in.optional("enable_chunked_prefill", true);
  s.long_prefill_token_threshold = in.optional<std::int64_t>("long_prefill_token_threshold", 0);
  s.prefix_caching = in.optional("enable_prefix_caching", true);
  s.graphs.enabled = !or_engine(in, "enforce_eager", no_graphs(site), Bound::kAny);
  s.graphs.decode_only = false;
  s.graphs.sizes = captured_sizes(in, "cuda_graph_sizes", vllm_graph_sizes(s.max_running_requests));
  const EngineDefault<double> fraction{0.9, "vLLM (config.py, CacheConfig)"};
  out.memory.static_fraction = site.fraction_stated
                                   ? in.maybe<double>("gpu_memory_utilization", Bound::kPositive)
                                   : or_engine(in, "gpu_memory_utilization", fraction, Bound::kPositive);
  out.memory.account = MemoryAccount::kVllm;
  out.memory.static_fraction_key = "gpu_memory_utilization";
  out.memory.kv_block_tokens = in.maybe<int>("block_size", Bound::kPositive);
  out.memory.default_block_tokens = 16;
  const std::string blocks = in.has("num_gpu_blocks") ? "num_gpu_blocks" : "num_gpu_blocks_override";
  in.check(!in.has("num_gpu_blocks") || !in.has("num_gpu_blocks_override"), "num_gpu_blocks",
           "this is num_gpu_blocks_override; give one of them.");
  out.memory.num_gpu_blocks = in.maybe<std::int64_t>(blocks, Bound::kPositive);
}

void read_speculation(ConfigReader& all, ServingOptions& out) {
  ConfigReader in = all.section("speculative");
  out.speculative.draft_tokens = draft_tokens(all);
  if (out.speculative.draft_tokens == 0) {
    return;
  }
  out.speculative.acceptance = in.required<double>("acceptance");
  in.check(out.speculative.acceptance <= 1, "acceptance", "a probability is at most 1.");
  const std::int64_t most = std::int64_t{out.max_running_requests} * (1 + out.speculative.draft_tokens);
  in.check(out.loop != SchedulerLoop::kVllm || most <= out.chunked_prefill_size, "draft_tokens",
           fmt::format("{} sequences with their proposed tokens do not fit a step of {} tokens "
                       "(max_num_batched_tokens).",
                       out.max_running_requests, out.chunked_prefill_size));
  if (out.loop == SchedulerLoop::kSglang) {  // server_args.py turns both off
    in.check(!out.mixed_chunk, "draft_tokens", "SGLang has no mixed chunks with speculative decoding; turn them off.");
    out.overlap_schedule = false;
  }
}

void read_common(ConfigReader& in, ServingOptions& out) {
  const std::string router = in.choice("router", {"round_robin", "least_tokens", "cache_aware"}, "round_robin");
  out.router = router == "round_robin"    ? Router::kRoundRobin
               : router == "least_tokens" ? Router::kLeastTokens
                                          : Router::kCacheAware;
  out.step_gap = in.optional("step_gap", Seconds{});
  out.gaps.graph = in.optional("graph_gap", Seconds{});
  out.gaps.eager = in.optional("eager_gap", Seconds{});
  out.gaps.scheduler = in.optional("scheduler_gap", Seconds{});
}

}  // namespace

std::span<const EngineProfile> engine_profiles() { return kProfiles; }

const EngineProfile& read_engine_profile(ConfigReader& in, const std::string& engine) {
  std::vector<std::string> names;
  for (const EngineProfile& profile : kProfiles) {
    names.emplace_back(profile.name);
  }
  for (const EngineAlias& alias : kEngineAliases) {
    names.emplace_back(alias.name);
  }
  std::string name = in.choice("engine", names, engine);
  for (const EngineAlias& alias : kEngineAliases) {
    name = name == alias.name ? alias.engine : name;
  }
  return *std::find_if(std::begin(kProfiles), std::end(kProfiles), [&](const auto& p) { return p.name == name; });
}

EngineSettings read_engine_settings(ConfigReader& in, const EngineSite& site, const std::string& engine) {
  const EngineProfile& profile = read_engine_profile(in, engine);
  refuse_other_engines_knobs(in, profile);
  EngineSettings out;
  ServingOptions& s = out.serving;
  s.engine = profile.name;
  s.loop = profile.loop;
  s.dp_ranks = site.dp_ranks;
  s.graphs.size = profile.graph_size;
  const bool divided = in.choice("budgets", {"per_rank", "divided_by_dp"}, "per_rank") == "divided_by_dp";
  const Budgets budgets{divided, site.dp_ranks};
  if (profile.loop == SchedulerLoop::kSglang) {
    read_sglang(in, budgets, site, out);
  } else {
    read_vllm(in, budgets, site, out);
  }
  read_common(in, s);
  read_speculation(in, s);
  return out;
}

}  // namespace epsim
