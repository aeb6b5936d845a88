#include "sim/scheduler/sglang_knobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace epsim {
namespace {

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

void read_graphs(ConfigReader& in, const EngineSite& site, int drafts, GraphOptions& out) {
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

void read_admission(ConfigReader& in, int dp_ranks, SglangKnobs& out) {
  out.reserve_full = in.choice("admission", {"new_token_ratio", "reserve_full"}, "new_token_ratio") == "reserve_full";
  double conservativeness = in.optional("schedule_conservativeness", 1.0);
  if (dp_ranks > 1) {
    conservativeness *= 0.3;  // server_args.py, with DP attention
  }
  NewTokenRatio& ratio = out.ratio;
  ratio.init = std::min(1.0, 0.7 * conservativeness);
  ratio.min = ratio.init * 0.14;
  ratio.decay = (ratio.init - ratio.min) / 600.0;
}

// server_args.py of January 2026; the versions of engines.cpp have none, and it is off by default where there is one.
void read_prefill_delayer(ConfigReader& in, int dp_ranks, PrefillAlignment& out) {
  const bool on = in.optional("enable_prefill_delayer", false);
  const int passes = in.optional<int>("prefill_delayer_max_delay_passes", 30, Bound::kPositive);
  out.token_usage_low_watermark = in.maybe<double>("prefill_delayer_token_usage_low_watermark", Bound::kPositive);
  in.check(out.token_usage_low_watermark.value_or(0) <= 1, "prefill_delayer_token_usage_low_watermark",
           "a share of the KV tokens is at most 1.");
  in.check(!on || dp_ranks > 1, "enable_prefill_delayer",
           "one DP rank has no other to wait for; SGLang refuses it without DP attention.");
  in.check(!on || !in.optional("disable_overlap_schedule", false), "enable_prefill_delayer",
           "SGLang refuses it with disable_overlap_schedule.");
  out.max_delay_passes = on ? passes : 0;
}

// SGLang divides its default by the DP ranks; one that is given counts as `budgets` says.
std::int64_t read_chunk(ConfigReader& in, const Budgets& budgets, const EngineSite& site) {
  EngineDefault<std::int64_t> fallback = sglang_chunk(site);
  if (!budgets.divided) {
    fallback.value = std::max<std::int64_t>(1, fallback.value / site.dp_ranks);
  }
  return or_engine(in, "chunked_prefill_size", fallback, Bound::kAny);
}

}  // namespace

void read_sglang(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out) {
  ServingOptions& s = out.serving;
  SglangKnobs knobs;
  const std::int64_t chunk = read_chunk(in, budgets, site);
  in.check(chunk > 0 || chunk == -1, "chunked_prefill_size", "this must be positive, or -1 for no limit.");
  s.token_budget =
      chunk == -1 ? std::numeric_limits<std::int32_t>::max() : budgets.per_rank(in, "chunked_prefill_size", chunk);
  knobs.max_prefill_tokens = in.optional<std::int64_t>("max_prefill_tokens", 16384, Bound::kPositive);
  const bool older_name = in.has("mixed_chunk");
  in.check(!older_name || !in.has("enable_mixed_chunk"), "mixed_chunk",
           "this is enable_mixed_chunk; give one of them.");
  knobs.mixed_chunk = older_name ? in.required<bool>("mixed_chunk") : in.optional("enable_mixed_chunk", false);
  const int drafts = s.speculative.draft_tokens;
  in.section("speculative")
      .check(drafts == 0 || !knobs.mixed_chunk, "draft_tokens",
             "SGLang has no mixed chunks with speculative decoding; turn them off.");
  const auto running = or_engine(in, "max_running_requests",
                                 sglang_running(budgets.divided ? 1 : site.dp_ranks, drafts > 0), Bound::kNotNegative);
  s.max_running_requests = static_cast<int>(budgets.per_rank(in, "max_running_requests", running));
  read_admission(in, s.dp_ranks, knobs);
  knobs.longest_prefix_first = in.choice("schedule_policy", {"fcfs", "lpm"}, "fcfs") == "lpm";
  s.prefix_caching = !in.optional("disable_radix_cache", false);
  // server_args.py turns it off with speculative decoding.
  s.overlap_schedule = !in.optional("disable_overlap_schedule", false) && drafts == 0;
  read_prefill_delayer(in, site.dp_ranks, s.prefill_alignment);
  read_graphs(in, site, drafts, s.graphs);
  const EngineDefault<double> fraction = sglang_static_fraction(site, drafts > 0);
  out.memory.static_fraction = site.fraction_stated || fraction.value <= 0
                                   ? in.maybe<double>("mem_fraction_static", Bound::kPositive)
                                   : or_engine(in, "mem_fraction_static", fraction, Bound::kPositive);
  out.memory.account = MemoryAccount::kSglang;
  out.memory.static_fraction_key = "mem_fraction_static";
  out.memory.kv_block_tokens = in.maybe<int>("page_size", Bound::kPositive);
  s.knobs = knobs;
}

}  // namespace epsim
