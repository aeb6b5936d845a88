#include "sim/scheduler/vllm_knobs.h"

#include <fmt/format.h>

#include <algorithm>

namespace epsim {

EngineDefault<std::int64_t> vllm_batched_tokens(const EngineSite& site) {
  const bool large = to_gib(site.gpu_memory) >= 70 && site.gpu.find("A100") == std::string::npos;
  return {large ? 8192 : 2048,
          fmt::format("vLLM's API server on {} (engine/arg_utils.py, _set_default_args_v1)", site.gpu)};
}

EngineDefault<std::int64_t> vllm_sequences(const EngineSite& site) {
  const auto tokens = vllm_batched_tokens(site);
  return {tokens.value == 8192 ? 1024 : 256, tokens.source};
}

EngineDefault<std::vector<std::int64_t>> vllm_graph_sizes(std::int64_t sequences) {
  std::vector<std::int64_t> sizes = {1, 2, 4};
  for (std::int64_t n = 8; n <= std::min<std::int64_t>(512, 2 * sequences); n += 8) {
    sizes.push_back(n);
  }
  return {sizes, "vLLM v0.10 (config, SchedulerConfig.cuda_graph_sizes): to twice max_num_seqs, at most 512"};
}

void read_vllm(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out) {
  ServingOptions& s = out.serving;
  VllmKnobs knobs;
  s.token_budget =
      budgets.per_rank(in, "max_num_batched_tokens",
                       or_engine(in, "max_num_batched_tokens", vllm_batched_tokens(site), Bound::kPositive));
  s.max_running_requests = static_cast<int>(
      budgets.per_rank(in, "max_num_seqs", or_engine(in, "max_num_seqs", vllm_sequences(site), Bound::kPositive)));
  in.check(s.max_running_requests <= s.token_budget, "max_num_seqs",
           fmt::format("{} sequences do not fit a step of {} tokens (max_num_batched_tokens).", s.max_running_requests,
                       s.token_budget));
  const std::int64_t most = std::int64_t{s.max_running_requests} * (1 + s.speculative.draft_tokens);
  in.section("speculative")
      .check(s.speculative.draft_tokens == 0 || most <= s.token_budget, "draft_tokens",
             fmt::format("{} sequences with their proposed tokens do not fit a step of {} tokens "
                         "(max_num_batched_tokens).",
                         s.max_running_requests, s.token_budget));
  knobs.chunked_prefill = in.optional("enable_chunked_prefill", true);
  knobs.long_prefill_token_threshold = in.optional<std::int64_t>("long_prefill_token_threshold", 0);
  // config/scheduler.py of June 2026; v0.9 and v0.10 have none.
  s.prefill_alignment.schedule_interval = in.optional<int>("prefill_schedule_interval", 1, Bound::kPositive);
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
  s.knobs = knobs;
}

}  // namespace epsim
