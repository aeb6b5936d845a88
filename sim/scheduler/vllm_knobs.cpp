#include "sim/scheduler/vllm_knobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <any>

namespace epsim {
namespace {

constexpr VllmKnobs kVllm{};

// Bytes of a logit while the profile run's sampler, with a row for each of max_num_seqs, sorts for top-k and top-p (vLLM
// pull request 13594; v1/sample/ops/topk_topp_sampler.py): 2 in bf16, 4 in float32, sorted 4 with an int64 index 8;
// PyTorch's segmented sort takes 8 for the indices it starts from and 12 for a second buffer of keys and indices
// (aten/src/ATen/native/cuda/SortStable.cu; the 12 are the 1.74 GiB of 1024 rows of 152,064 words in vLLM issue 15105).
constexpr double kSortedLogitBytes = 2 + 4 + (4 + 8) + 8 + (4 + 8);
// Without a sort, by Triton's kernel (pull request 33538, v0.16) or FlashInfer's (40376, default since April 2026): 2 in bf16, 4 in
// float32, 4 for its probability and 4 for the noise that it is divided by, or for the logits that top-k keeps. v0.14 and v0.15 sort.
constexpr double kLogitBytes = 2 + 4 + 4 + 4;

constexpr KeyTable kSharedKeys({
    {"max_num_batched_tokens", key::whole(Bound::kPositive), key::by("the engine's, by GPU"),
     "Tokens of a DP rank in one step."},
    {"max_num_seqs", key::whole(Bound::kPositive), key::by("the engine's, by GPU"), "Requests running on a DP rank."},
    {"enable_chunked_prefill", key::flag(), key::is(kVllm.chunked_prefill), "false: a prompt runs whole or waits."},
    {"long_prefill_token_threshold", key::whole(), key::is(kVllm.long_prefill_token_threshold),
     "Longest chunk of one prompt; 0: no limit."},
    {"prefill_schedule_interval", key::whole(Bound::kPositive), key::is(1),
     "Ranks with decodes start and continue prompts only in every n-th step, the same for all ranks; 1: in every "
     "step."},
    {"enable_prefix_caching", key::flag(), key::is(true), "Prefix cache."},
    {"enforce_eager", key::flag(), key::by("the engine's, by transport"), "No CUDA graphs."},
    {"gpu_memory_utilization", key::number(kPositiveShare), key::by("memory.static_fraction"),
     "vLLM's name of memory.static_fraction."},
    {"block_size", key::whole(Bound::kPositive), key::by("memory.kv_block_tokens"),
     "vLLM's name of memory.kv_block_tokens."},
    {"num_gpu_blocks", key::whole(Bound::kPositive), key::by("memory.num_gpu_blocks"), "As num_gpu_blocks_override."},
    {"num_gpu_blocks_override", key::whole(Bound::kPositive), key::by("memory.num_gpu_blocks"),
     "vLLM's name of memory.num_gpu_blocks."},
});
constexpr KeyTable kVllmKeys =
    KeyTable({{"cuda_graph_sizes", key::wholes(Bound::kPositive),
               key::by("1, 2, 4, 8, 16, 24 and so on to 2 max_num_seqs, at most 512"), "Captured batch sizes."}}) +
    kSharedKeys;
constexpr KeyTable kVllm014Keys =
    KeyTable(
        {{"scheduler_reserve_full_isl", key::flag(), key::is(kVllm.reserve_full_isl),
          "A prompt enters only when all of it fits, not just its first chunk; on by default in vLLM since March "
          "2026 (pull request 37307)."},
         {"async_scheduling", key::flag(), key::by("true; false with drafter none"),
          "A batch is put together while the step before it runs; false: when the tokens of that step are known."},
         {"cudagraph_capture_sizes", key::wholes(Bound::kPositive),
          key::by("1, 2, 4, every 8th to 248, every 16th from 256 to 2 max_num_seqs with their drafts, at most 512"),
          "Captured batch sizes."}}) +
    kSharedKeys;

}  // namespace

std::span<const Key> vllm_keys() { return kVllmKeys; }
std::span<const Key> vllm_0_14_keys() { return kVllm014Keys; }

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

EngineDefault<std::vector<std::int64_t>> vllm_0_14_graph_sizes(std::int64_t sequences, int tokens,
                                                               std::int64_t budget) {
  const std::int64_t largest = std::min({std::int64_t{512}, 2 * sequences * tokens, budget});
  std::vector<std::int64_t> sizes = {1, 2, 4};
  for (std::int64_t n = 8; n <= largest; n += n < 256 ? 8 : 16) {
    sizes.push_back(n);
  }
  std::erase_if(sizes, [&](std::int64_t n) { return n > largest; });
  return {sizes,
          "vLLM v0.14 (config/vllm.py, _set_cudagraph_sizes): to twice max_num_seqs with their drafts, at most 512"};
}

namespace {

// platforms/cuda.py, check_and_update_config, v0.10 and v0.14: FlashMLA has blocks of 64, CUTLASS's MLA on Blackwell of 128.
int mla_block_tokens(const EngineSite& site) { return site.hopper() ? 64 : site.blackwell() ? 128 : 16; }

void read_shared(ConfigReader& in, const Budgets& budgets, const EngineSite& site, double logit_bytes,
                 EngineSettings& out) {
  ServingOptions& s = out.serving;
  VllmKnobs knobs;
  s.token_budget = budgets.per_rank(in, "max_num_batched_tokens",
                                    or_engine(in, kSharedKeys["max_num_batched_tokens"], vllm_batched_tokens(site)));
  s.max_running_requests = static_cast<int>(
      budgets.per_rank(in, "max_num_seqs", or_engine(in, kSharedKeys["max_num_seqs"], vllm_sequences(site))));
  in.check(s.max_running_requests <= s.token_budget, "max_num_seqs",
           fmt::format("{} sequences do not fit a step of {} tokens (max_num_batched_tokens).", s.max_running_requests,
                       s.token_budget));
  const std::int64_t most = std::int64_t{s.max_running_requests} * (1 + s.speculative.draft_tokens);
  in.section("speculative")
      .check(s.speculative.draft_tokens == 0 || most <= s.token_budget, "draft_tokens",
             fmt::format("{} sequences with their proposed tokens do not fit a step of {} tokens "
                         "(max_num_batched_tokens).",
                         s.max_running_requests, s.token_budget));
  // v1/spec_decode/eagle.py: propose() runs over all requests of the batch.
  s.speculative.proposes_beside_prompts = true;
  knobs.chunked_prefill = in.read<bool>(kSharedKeys["enable_chunked_prefill"]);
  s.longest_prompt = knobs.chunked_prefill ? 0 : s.token_budget;
  knobs.long_prefill_token_threshold = in.read<std::int64_t>(kSharedKeys["long_prefill_token_threshold"]);
  // config/scheduler.py of June 2026; v0.9 and v0.10 have none.
  s.prefill_alignment.schedule_interval = in.read<int>(kSharedKeys["prefill_schedule_interval"]);
  s.prefix_caching = in.read<bool>(kSharedKeys["enable_prefix_caching"]);
  read_graph_use(in, kSharedKeys["enforce_eager"], false, site, s.graphs);
  const EngineDefault<double> fraction{
      0.9, "vLLM before v0.21 (config.py, CacheConfig); then 0.92, less what it expects CUDA graphs to take"};
  out.memory.static_fraction = site.fraction_stated ? in.maybe<double>(kSharedKeys["gpu_memory_utilization"])
                                                    : or_engine(in, kSharedKeys["gpu_memory_utilization"], fraction);
  out.memory.account = MemoryAccount::kVllm;
  out.memory.kv_block_tokens = in.maybe<int>(kSharedKeys["block_size"]);
  out.memory.default_block_tokens = 16;
  out.memory.mla_block_tokens = mla_block_tokens(site);
  out.memory.drafter = true;  // v1/worker/gpu_model_runner.py: load_model, get_kv_cache_spec
  out.memory.peak_per_word = logit_bytes * s.max_running_requests;
  in.check(!in.has("num_gpu_blocks") || !in.has("num_gpu_blocks_override"), "num_gpu_blocks",
           "this is num_gpu_blocks_override; give one of them.");
  out.memory.num_gpu_blocks = in.maybe<std::int64_t>(in.has("num_gpu_blocks") ? kSharedKeys["num_gpu_blocks"]
                                                                              : kSharedKeys["num_gpu_blocks_override"]);
  s.knobs = knobs;
}

// Where the scenario's sizes are not the engine's and graphs are off, a warning.
void read_sizes(ConfigReader& in, const Key& key, const EngineDefault<std::vector<std::int64_t>>& usual,
                const EngineSite& site, ServingOptions& s) {
  s.graphs.sizes = s.graphs.prompt_sizes = captured_sizes(in, key, usual);
  const bool own = s.graphs.sizes != usual.value;
  note_idle_knobs(in, {{key, static_cast<double>(own), graphs_count(s.graphs, site), kGraphsOff, 0}}, s);
}

}  // namespace

void read_vllm(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out) {
  read_shared(in, budgets, site, kSortedLogitBytes, out);
  read_sizes(in, kVllmKeys["cuda_graph_sizes"], vllm_graph_sizes(out.serving.max_running_requests), site, out.serving);
}

void read_vllm_0_14(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out) {
  read_shared(in, budgets, site, kLogitBytes, out);
  ServingOptions& s = out.serving;
  // config/vllm.py: on unless something other than EAGLE or MTP drafts, which is refused with it.
  const bool plain_drafts = s.speculative.draft_tokens > 0 && s.speculative.drafter == DrafterKind::kNone;
  s.overlap_schedule = in.read<bool>(kVllm014Keys["async_scheduling"], !plain_drafts);
  std::any_cast<VllmKnobs&>(s.knobs).reserve_full_isl = in.read<bool>(kVllm014Keys["scheduler_reserve_full_isl"]);
  in.check(!plain_drafts || !s.overlap_schedule, "async_scheduling",
           "vLLM schedules ahead only with drafts of EAGLE or MTP (speculative.drafter mtp_layer).");
  read_sizes(in, kVllm014Keys["cudagraph_capture_sizes"],
             vllm_0_14_graph_sizes(s.max_running_requests, 1 + s.speculative.draft_tokens, s.token_budget), site, s);
}

}  // namespace epsim
