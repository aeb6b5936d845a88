// SGLang's commands: docs.sglang.io, server arguments, expert parallelism, router.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/scenario/engine_defaults.h"
#include "sim/verbs/launch/engine_launch.h"

namespace epsim {
namespace {

// v0.4.8 has --enable-ep-moe where later ones have --ep-size.
bool before_ep_size(const CapacityDesign& d) { return engine_version(d.engine) == "sglang_0_4_8"; }

// Of the largest batch that a graph replays; 0 where DeepEP's buffers hold them by default.
std::int64_t buffered_rows(const LaunchedPool& pool) {
  const GraphOptions& graphs = pool.planned.pool.serving.graphs;
  return low_latency_rows(pool.planned.pool, graphs.enabled && !graphs.sizes.empty() ? graphs.sizes.back() : 0);
}

// The depth of DeepEP's queues has to follow (deep_ep/buffer.py).
std::string buffer_size(const LaunchedPool& pool) {
  constexpr std::uint64_t kUsualDepth = 1024;
  const std::int64_t rows = buffered_rows(pool);
  if (rows == 0) {
    return "";
  }
  const std::int64_t held = std::min(rows, kMostLowLatencyRows);
  const std::uint64_t depth = std::bit_ceil(2 * (static_cast<std::uint64_t>(held) + 1));
  return (depth > kUsualDepth ? fmt::format("NVSHMEM_QP_DEPTH={} ", depth) : "") +
         fmt::format("SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK={} ", held);
}

// --enable-deepep-moe before 0.4.10
std::string deep_ep_flags(const LaunchedPool& pool) {
  const Transport prompts = pool.transport_of(false), decodes = pool.transport_of(true);
  return fmt::format(" {} --deepep-mode {}",
                     before_ep_size(pool.design) ? "--enable-deepep-moe" : "--moe-a2a-backend deepep",
                     prompts != decodes                    ? "auto"
                     : decodes == Transport::kDeepEpNormal ? "normal"
                                                           : "low_latency");
}

// server_args.py (speculative_algorithm)
std::string draft_flags(const LaunchedPool& pool) {
  const SpeculativeOptions& drafts = pool.drafts();
  if (drafts.draft_tokens == 0) {
    return "";
  }
  if (!drafts.has_layer()) {
    return fmt::format(" --speculative-algorithm NGRAM --speculative-num-draft-tokens {}", drafts.draft_tokens + 1);
  }
  return fmt::format(
      " --speculative-algorithm EAGLE --speculative-num-steps {} --speculative-eagle-topk 1 "
      "--speculative-num-draft-tokens {}",
      drafts.draft_tokens, drafts.draft_tokens + 1);
}

// How weights that all DP ranks have are held, where it is not SGLang's default: over all GPUs.
std::string layout_flags(const LaunchedPool& pool) {
  const Parallelism& p = pool.planned.pool.parallelism;
  if (pool.ranks() == 1) {
    return "";
  }
  const bool dense = pool.model().dense_layers() > 0 && p.dense_ffn != Sharding::kAllGpus && p.ways(p.dense_ffn) == 1;
  return std::string(dense ? " --moe-dense-tp-size 1" : "") +
         (p.lm_head != Sharding::kAllGpus ? " --enable-dp-lm-head" : "");
}

// Budgets count per rank, unless they are SGLang's own, which it divides by the ranks (managers/scheduler.py,
// tp_worker.py). 0 running requests, as many as the pool holds, are no flag.
std::string budget_flags(GivenKnobs& knobs, int ranks) {
  const int times = knobs.take("budgets") == "divided_by_dp" ? 1 : ranks;
  std::string out;
  if (const std::string chunk = knobs.take("chunked_prefill_size"); !chunk.empty()) {
    out += fmt::format(" --chunked-prefill-size {}", chunk == "-1" ? -1 : std::stoll(chunk) * times);
  }
  if (const std::string running = knobs.take("max_running_requests"); !running.empty() && running != "0") {
    out += fmt::format(" --max-running-requests {}", std::stoll(running) * times);
  }
  return out;
}

std::string sglang_command(const LaunchedPool& pool, GivenKnobs& knobs) {
  const CapacityDesign& d = pool.design;
  std::string out = buffer_size(pool);
  if (knobs.take("enable_spec_v2") == "true") {
    out += "SGLANG_ENABLE_SPEC_V2=1 ";
  }
  if (pool.beyond_model()) {  // configs/model_config.py
    out += "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 ";
  }
  out += fmt::format("python3 -m sglang.launch_server --model-path $MODEL --trust-remote-code --tp-size {}", d.gpus);
  if (!pool.model().dense() && d.ep_ranks() > 1) {
    out += before_ep_size(d) ? " --enable-ep-moe" : fmt::format(" --ep-size {}", d.ep_ranks());
  }
  out += pool.deep_ep() ? deep_ep_flags(pool) : "";
  if (pool.ranks() > 1) {
    out += fmt::format(" --dp-size {} --enable-dp-attention", pool.ranks());
  }
  out += layout_flags(pool);
  if (pool.hosts.each > 1) {
    out += fmt::format(" --nnodes {} --node-rank $NODE_RANK --dist-init-addr $LEADER:5000", pool.hosts.each);
  }
  if (!pool.whole()) {
    out += " --disaggregation-mode " + role_name(d);
  }
  if (!pool.experts.name.empty()) {
    out +=
        fmt::format(" --init-expert-location {} --ep-num-redundant-experts {}", pool.experts.name, pool.experts.copies);
  }
  if (pool.beyond_model()) {
    out += fmt::format(" --context-length {}", pool.context);
  }
  out += pool.fp8_cache() ? " --kv-cache-dtype fp8_e4m3" : "";
  out += draft_flags(pool);
  knobs.take("speculative");
  if (knobs.take("mixed_chunk") == "true") {
    out += " --enable-mixed-chunk";
  }
  // server_args.py
  return out + budget_flags(knobs, pool.ranks()) +
         knobs.flags({"max_prefill_tokens", "enable_mixed_chunk", "schedule_policy", "page_size",
                      "schedule_conservativeness", "mem_fraction_static", "disable_radix_cache", "attention_backend",
                      "disable_overlap_schedule", "disable_cuda_graph", "cuda_graph_max_bs", "cuda_graph_bs",
                      "disable_cuda_graph_padding", "swa_full_tokens_ratio", "scheduler_recv_interval",
                      "enable_prefill_delayer", "prefill_delayer_max_delay_passes",
                      "prefill_delayer_token_usage_low_watermark", "prefill_decode_interval"},
                     "") +
         " --host 0.0.0.0";
}

std::string sglang_notes(const LaunchedPool& pool) {
  std::string out;
  if (const std::string_view wrong = moved_experts_warning(pool.planned.pool);
      !pool.experts.name.empty() && !wrong.empty()) {
    out += fmt::format("# {}\n", wrong);
  }
  if (const std::int64_t rows = buffered_rows(pool); rows > kMostLowLatencyRows) {
    out += fmt::format(
        "# Captured batches have up to {} tokens a GPU, of which DeepEP takes {} in SGLang: lower cuda_graph_max_bs.\n",
        rows, kMostLowLatencyRows);
  }
  if (pool.drafts().has_layer() && pool.model().mtp_layers == 0) {
    out += kOwnDrafter;
  }
  return out;
}

std::string sglang_router(std::span<const LaunchedPool> pools) {
  const Router router = pools.front().planned.router,
               policy = router == Router::kRoundRobin || router == Router::kRandom ? router : Router::kCacheAware;
  std::string out = not_the_router(router, policy) + "# the router";
  if (pools.size() > 1) {
    return out + fmt::format(
                     ": --prefill and --decode once for each instance\npython3 -m sglang_router.launch_router "
                     "--pd-disaggregation --policy {} --prefill http://PREFILL:30000 --decode http://DECODE:30000\n",
                     name_of(policy));
  }
  out += fmt::format("\npython3 -m sglang_router.launch_router --policy {} --worker-urls http://INSTANCE:30000\n",
                     name_of(policy));
  return out + (pools.front().hosts.beside > 1 ? "# of each host one URL for each port\n" : "");
}

}  // namespace

// DP ranks take ports behind the instance's own (server_args.py, PortArgs).
const EngineLaunch kSglangLaunch{"sglang", "json", 30000, 1000, false, sglang_command, sglang_notes, sglang_router};

}  // namespace epsim
