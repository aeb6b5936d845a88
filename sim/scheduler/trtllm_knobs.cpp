#include "sim/scheduler/trtllm_knobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

namespace epsim {
namespace {

constexpr TrtllmKnobs kTrtllm{};
constexpr std::int64_t kLargestGraph = 128;

constexpr KeyTable kTrtllmKeys({
    {"max_num_tokens", key::whole(Bound::kPositive), key::is(8192), "Tokens of a DP rank in one step, decodes first."},
    {"max_batch_size", key::whole(Bound::kPositive), key::is(2048),
     "Requests running on a DP rank; no more than a step has tokens for."},
    {"enable_chunked_prefill", key::flag(), key::is(kTrtllm.chunked_prefill),
     "Prompts may be cut, to whole KV blocks; false: a prompt runs whole or waits."},
    {"batch_wait_timeout_iters", key::whole(), key::is(kTrtllm.batch_wait_timeout_iters),
     "Steps for which prompts wait for a large batch while decodes run, with one DP rank."},
    {"batch_wait_max_tokens_ratio", key::number(kShare), key::is(kTrtllm.batch_wait_max_tokens_ratio),
     "Share of max_num_tokens from which a batch is large."},
    {"attention_dp_enable_balance", key::flag(), key::is(false),
     "Hold prompts back until every DP rank has one (attention_dp_config.enable_balance)."},
    {"attention_dp_time_out_iters", key::whole(Bound::kPositive), key::is(50),
     "Steps after which they start nevertheless (attention_dp_config.timeout_iters)."},
    {"attention_dp_batching_wait_iters", key::whole(), key::is(10),
     "Steps that prompts wait for more once every DP rank has one (attention_dp_config.batching_wait_iters)."},
    {"disable_overlap_scheduler", key::flag(), key::by("false; true for prefill instances"),
     "Schedule between steps, when the tokens of the last one are known: scheduler_gap is added to each."},
    {"enable_block_reuse", key::flag(), key::is(true), "Prefix cache (kv_cache_config.enable_block_reuse)."},
    {"use_cuda_graph", key::flag(), key::by("the engine's, by transport"), "CUDA graphs of steps of decodes alone."},
    {"cuda_graph_max_batch_size", key::whole(Bound::kPositive),
     key::by("the largest of cuda_graph_batch_sizes, else 128"),
     "Largest captured batch (cuda_graph_config.max_batch_size)."},
    {"cuda_graph_batch_sizes", key::wholes(Bound::kPositive), key::by("the engine's, to cuda_graph_max_batch_size"),
     "Captured batch sizes (cuda_graph_config.batch_sizes)."},
    {"cuda_graph_padding_enabled", key::flag(), key::is(false),
     "Pad batches to a captured size (cuda_graph_config.enable_padding); false: replay only exact sizes."},
    {"capture_num_tokens", key::wholes(Bound::kPositive), key::by("none: steps with prompts run kernel by kernel"),
     "Tokens of steps with prompts that piecewise CUDA graphs hold (torch_compile_config)."},
    {"free_gpu_memory_fraction", key::number(kPositiveShare), key::by("memory.static_fraction"),
     "Share of the memory that weights leave, for the KV cache; in place of memory.static_fraction."},
    {"tokens_per_block", key::whole(Bound::kPositive), key::by("memory.kv_block_tokens"),
     "TensorRT-LLM's name of memory.kv_block_tokens."},
});

// What differs between versions.
struct TrtllmVersion {
  bool sparse_graphs = false;       // until pull request 12895 (1.3)
  bool budget_counts_hits = false;  // until pull request 11637 (1.3)
};

void read_trtllm_graphs(ConfigReader& in, const EngineSite& site, const TrtllmVersion& version, int drafts,
                        ServingOptions& s) {
  GraphOptions& out = s.graphs;
  read_graph_use(in, kTrtllmKeys["use_cuda_graph"], true, site, out);
  out.pad = in.read<bool>(kTrtllmKeys["cuda_graph_padding_enabled"]);
  // pyexecutor/cuda_graph_runner.py, maybe_get_cuda_graph: with attention DP padding is what makes batches of a size.
  out.alike = !out.pad && site.dp_ranks > 1;
  // CudaGraphConfig.validate_cuda_graph_config (llm_args.py): sizes that are given say which is the largest, and another
  // max_batch_size beside them is refused. Earlier validators refused further pairs: sizes that are not those generated.
  const EngineDefault<std::int64_t> usual{kLargestGraph, "TensorRT-LLM (llm_args.py, CudaGraphConfig)"};
  const bool sizes_given = in.has("cuda_graph_batch_sizes");
  const std::int64_t wanted = in.maybe<std::int64_t>(kTrtllmKeys["cuda_graph_max_batch_size"]).value_or(usual.value);
  const auto generated = trtllm_graph_sizes(wanted, out.pad, version.sparse_graphs);
  out.sizes = captured_sizes(in, kTrtllmKeys["cuda_graph_batch_sizes"], generated);
  const bool counts = graphs_count(out, site), own_sizes = out.sizes != generated.value;
  const std::int64_t most = out.sizes.back();
  const std::int64_t largest =
      or_engine(in, kTrtllmKeys["cuda_graph_max_batch_size"], sizes_given ? EngineDefault{most, usual.source} : usual);
  in.check(largest == most, "cuda_graph_max_batch_size",
           fmt::format("TensorRT-LLM refuses {} beside cuda_graph_batch_sizes, the largest of which is {}; give one of "
                       "the two.",
                       largest, most));
  note_idle_knobs(in,
                  {{kTrtllmKeys["cuda_graph_max_batch_size"], static_cast<double>(largest), counts || own_sizes,
                    kGraphsOff, static_cast<double>(usual.value)},
                   {kTrtllmKeys["cuda_graph_batch_sizes"], static_cast<double>(own_sizes), counts, kGraphsOff, 0},
                   {kTrtllmKeys["cuda_graph_padding_enabled"], static_cast<double>(out.pad), counts, kGraphsOff}},
                  s);
  for (std::int64_t& size : out.sizes) {
    size *= 1 + drafts;  // sizes count requests; each has a token and its drafts in a step
  }
  const EngineDefault<std::vector<std::int64_t>> none{{}, "TensorRT-LLM without torch_compile_config (llm_args.py)"};
  out.prompt_sizes = or_engine(in, kTrtllmKeys["capture_num_tokens"], none);
  std::sort(out.prompt_sizes.begin(), out.prompt_sizes.end());
}

void read_trtllm_waits(ConfigReader& in, TrtllmKnobs& knobs, ServingOptions& s) {
  knobs.batch_wait_timeout_iters = in.read<std::int64_t>(kTrtllmKeys["batch_wait_timeout_iters"]);
  knobs.batch_wait_max_tokens_ratio = in.read<double>(kTrtllmKeys["batch_wait_max_tokens_ratio"]);
  const bool balance = in.read<bool>(kTrtllmKeys["attention_dp_enable_balance"]);
  const int timeout = in.read<int>(kTrtllmKeys["attention_dp_time_out_iters"]);
  const int batching = in.read<int>(kTrtllmKeys["attention_dp_batching_wait_iters"]);
  in.check(!balance || s.dp_ranks > 1, "attention_dp_enable_balance", "one DP rank has no other to wait for.");
  if (balance) {
    s.prefill_alignment.timeout_iters = timeout;
    s.prefill_alignment.batching_wait_iters = batching;
  }
  // A batch waits while both limits are unmet (trtllm.cpp), and not with attention DP.
  const bool alone = s.dp_ranks == 1;
  const auto iters = static_cast<double>(knobs.batch_wait_timeout_iters);
  const double ratio = knobs.batch_wait_max_tokens_ratio;
  constexpr std::string_view kOff = "attention_dp_enable_balance is off", kSeveral = "there are several DP ranks";
  note_idle_knobs(in,
                  {{kTrtllmKeys["attention_dp_time_out_iters"], static_cast<double>(timeout), balance, kOff},
                   {kTrtllmKeys["attention_dp_batching_wait_iters"], static_cast<double>(batching), balance, kOff},
                   {kTrtllmKeys["batch_wait_timeout_iters"], iters, alone && ratio > 0,
                    alone ? "batch_wait_max_tokens_ratio is 0" : kSeveral},
                   {kTrtllmKeys["batch_wait_max_tokens_ratio"], ratio, alone && iters > 0,
                    alone ? "batch_wait_timeout_iters is 0" : kSeveral}},
                  s);
}

void read_trtllm_memory(ConfigReader& in, const EngineSite& site, EngineMemory& out) {
  const EngineDefault<double> fraction{0.9, "TensorRT-LLM (llm_args.py, KvCacheConfig)"};
  out.static_fraction = site.fraction_stated ? in.maybe<double>(kTrtllmKeys["free_gpu_memory_fraction"])
                                             : or_engine(in, kTrtllmKeys["free_gpu_memory_fraction"], fraction);
  out.account = MemoryAccount::kTrtllm;
  out.kv_block_tokens = in.maybe<int>(kTrtllmKeys["tokens_per_block"]);
  out.default_block_tokens = 32;  // llm_args.py, KvCacheConfig.tokens_per_block
  if (site.hopper()) {
    out.mla_block_tokens = 64;  // py_executor_creator.py: enable_flash_mla
  }
  // pyexecutor/resource_manager.py takes windows as long as the longest sequence where max_attention_window is not given;
  // _util.py counts the layers of a drafter with the model's.
  out.window_share = 1;
  out.drafter = true;
}

// Context-only requests are refused with it (v1.1, executor/base_worker.py); 1.3 takes some, and its examples of
// disaggregated serving turn it off.
bool read_trtllm_overlap(ConfigReader& in, const EngineSite& site) {
  const EngineDefault<bool> off{site.role == InstanceRole::kPrefill,
                                "TensorRT-LLM (llm_args.py; examples/disaggregated for context servers)"};
  return !or_engine(in, kTrtllmKeys["disable_overlap_scheduler"], off);
}

}  // namespace

std::span<const Key> trtllm_keys() { return kTrtllmKeys; }

EngineDefault<std::vector<std::int64_t>> trtllm_graph_sizes(std::int64_t largest, bool pad, bool sparse) {
  std::vector<std::int64_t> sizes;
  if (pad) {
    sizes = {1, 2, 4};
    for (std::int64_t n = 8; n <= 128; n += 8) {
      sizes.push_back(n);
    }
  } else {
    for (std::int64_t n = 1; n <= 32; ++n) {
      sizes.push_back(n);
    }
    sizes.insert(sizes.end(), {64, 128});
  }
  const bool every_64th = pad && !sparse;
  for (std::int64_t n = every_64th ? 192 : 256; n < largest; n = every_64th ? n + 64 : 2 * n) {
    sizes.push_back(n);
  }
  std::erase_if(sizes, [&](std::int64_t n) { return n > largest; });
  if (sizes.back() != largest) {
    sizes.push_back(largest);
  }
  return {sizes, "TensorRT-LLM (llm_args.py, CudaGraphConfig._generate_cuda_graph_batch_sizes)"};
}

namespace {

void read_version(ConfigReader& in, const Budgets& budgets, const EngineSite& site, const TrtllmVersion& version,
                  EngineSettings& out) {
  ServingOptions& s = out.serving;
  TrtllmKnobs knobs;
  s.token_budget = budgets.per_rank(in, "max_num_tokens", in.read<std::int64_t>(kTrtllmKeys["max_num_tokens"]));
  const int drafts = s.speculative.draft_tokens;
  const std::int64_t batch =
      budgets.per_rank(in, "max_batch_size", in.read<std::int64_t>(kTrtllmKeys["max_batch_size"]));
  in.check(s.token_budget > drafts, "max_num_tokens",
           fmt::format("no step of {} tokens has room for a token with its {} drafts.", s.token_budget, drafts));
  // More would run in turns.
  s.max_running_requests = static_cast<int>(std::min<std::int64_t>(batch, s.token_budget / (1 + drafts)));
  // speculative/mtp.py, MTPEagleWorker.forward: all requests of the batch, in the same graph as the model.
  s.speculative.proposes_beside_prompts = true;
  knobs.chunked_prefill = in.read<bool>(kTrtllmKeys["enable_chunked_prefill"]);
  s.longest_prompt = knobs.chunked_prefill ? 0 : s.token_budget;
  read_trtllm_waits(in, knobs, s);
  knobs.budget_counts_hits = version.budget_counts_hits;
  s.overlap_schedule = read_trtllm_overlap(in, site);
  s.prefix_caching = in.read<bool>(kTrtllmKeys["enable_block_reuse"]);
  read_trtllm_graphs(in, site, version, drafts, s);
  read_trtllm_memory(in, site, out.memory);
  s.knobs = knobs;
}

}  // namespace

void read_trtllm(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out) {
  read_version(in, budgets, site, {}, out);
}

void read_trtllm_1_2(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out) {
  read_version(in, budgets, site, {.sparse_graphs = true, .budget_counts_hits = true}, out);
}

}  // namespace epsim
