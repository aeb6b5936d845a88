// vLLM's commands: docs.vllm.ai, data parallel and expert parallel deployment, v0.10 (vllm_v1) and v0.14.
#include <fmt/format.h>

#include "sim/verbs/launch/engine_launch.h"

namespace epsim {
namespace {

bool is_v1(const CapacityDesign& d) { return engine_version(d.engine) == "vllm_v1"; }

// A DP rank has GPUs of several hosts, beside other ranks: Ray places them (data_parallel_deployment,
// VLLM_RAY_DP_PACK_STRATEGY).
bool by_ray(const LaunchedPool& pool) { return pool.ranks() > 1 && pool.design.attention_tp > pool.hosts.gpus; }

// Where the ranks of an instance of several hosts run.
std::string host_flags(const LaunchedPool& pool) {
  const int hosts = pool.hosts.each;
  if (by_ray(pool)) {
    return " --data-parallel-backend ray";
  }
  if (pool.ranks() == 1) {  // one rank over all hosts (parallelism_scaling)
    return fmt::format(
        " --nnodes {} --node-rank $NODE_RANK --master-addr $LEADER $([ $NODE_RANK = 0 ] || echo --headless)", hosts);
  }
  return fmt::format(
      " --data-parallel-size-local {0} --data-parallel-start-rank $((NODE_RANK * {0})) "
      "--data-parallel-address $LEADER --data-parallel-rpc-port 13345 $([ $NODE_RANK = 0 ] || echo --headless)",
      std::max(1, pool.ranks() / hosts));
}

// config/speculative.py
std::string speculative_flags(const LaunchedPool& pool) {
  const SpeculativeOptions& drafts = pool.drafts();
  return drafts.draft_tokens == 0
             ? ""
             : fmt::format(" --speculative-config '{{\"method\": \"{}\", \"num_speculative_tokens\": {}{}}}'",
                           drafts.has_layer() ? "mtp" : "ngram", drafts.draft_tokens,
                           drafts.has_layer() ? "" : fmt::format(", \"prompt_lookup_max\": {}", drafts.draft_tokens));
}

// Without --max-model-len an engine does not start whose KV pool is smaller than the model's context
// (vllm/v1/core/kv_cache_utils.py).
std::string vllm_command(const LaunchedPool& pool, GivenKnobs& knobs) {
  const CapacityDesign& d = pool.design;
  std::string out = fmt::format(
      "vllm serve $MODEL --trust-remote-code{} --tensor-parallel-size {} --data-parallel-size {} --max-model-len {}",
      pool.model().dense() || d.ep_ranks() == 1 ? "" : " --enable-expert-parallel", d.attention_tp, pool.ranks(),
      pool.context);
  if (pool.hosts.each > 1) {
    out += host_flags(pool);
  }
  if (!pool.experts.name.empty()) {  // v0.12 has no --num-redundant-experts (config/parallel.py of v0.11)
    out += is_v1(d)
               ? fmt::format(" --enable-eplb --num-redundant-experts {}", pool.experts.copies)
               : fmt::format(" --enable-eplb --eplb-config '{{\"num_redundant_experts\": {}}}'", pool.experts.copies);
  }
  if (pool.deep_ep()) {  // vLLM pull request 26732, in v0.11.1: --all2all-backend in place of the variable
    const char* backend = d.role == InstanceRole::kPrefill ? "deepep_high_throughput" : "deepep_low_latency";
    out = is_v1(d) ? fmt::format("VLLM_ALL2ALL_BACKEND={} {}", backend, out)
                   : fmt::format("{} --all2all-backend {}", out, backend);
  }
  if (pool.beyond_model()) {  // envs.py
    out = "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 " + out;
  }
  if (!pool.whole()) {  // docs.vllm.ai, nixl_connector_usage; the host defaults to localhost
    out = "VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname -I | cut -d ' ' -f 1) " + out +
          " --kv-transfer-config '{\"kv_connector\": \"NixlConnector\", \"kv_role\": \"kv_both\"}'";
  }
  if (by_ray(pool)) {
    out =
        "if [ $NODE_RANK != 0 ]; then exec ray start --address $LEADER:6379 --block; fi\nray start --head --port 6379\n"
        "VLLM_RAY_DP_PACK_STRATEGY=span " +
        out;
  }
  out += pool.fp8_cache() ? " --kv-cache-dtype fp8" : "";
  out += speculative_flags(pool);
  knobs.take("speculative");
  if (const std::string blocks = knobs.take("num_gpu_blocks"); !blocks.empty()) {
    out += " --num-gpu-blocks-override " + blocks;
  }
  // arg_utils.py
  return out +
         knobs.flags({"max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "num_gpu_blocks_override",
                      "block_size", "enable_prefix_caching", "enable_chunked_prefill", "enforce_eager",
                      "long_prefill_token_threshold", "async_scheduling", "scheduler_reserve_full_isl",
                      "prefill_schedule_interval", "cudagraph_capture_sizes", "cuda_graph_sizes"},
                     "no-");
}

std::string vllm_notes(const LaunchedPool& pool) {
  const CapacityDesign& d = pool.design;
  std::string out;
  if (by_ray(pool)) {
    out += fmt::format("# A DP rank of {} GPUs spans hosts of {}: Ray starts such ranks.\n", d.attention_tp,
                       pool.hosts.gpus);
  }
  if (pool.drafts().has_layer() && pool.model().mtp_layers == 0) {
    out += kOwnDrafter;
  }
  if (pool.model().dense() && pool.hosts.each > 1 && is_v1(d)) {
    out += "# vllm_v1's releases start tensor parallelism over nodes by Ray, without --nnodes and what follows it.\n";
  }
  out += "# --max-model-len is the demand's longest request, in whole 1024s; vLLM refuses longer ones.\n";
  if (!pool.experts.name.empty()) {
    out +=
        fmt::format("# No released vLLM reads {}: it starts in order and plans by itself (vllm pull request 49572).\n",
                    pool.experts.name);
  }
  return out;
}

std::string vllm_router(std::span<const LaunchedPool> pools) {
  if (pools.size() == 1) {
    return spread_by(pools.front().planned.router);
  }
  // docs.vllm.ai, nixl_connector_usage
  return not_the_router(pools.front().planned.router) +
         "# Requests go to a proxy, never to an instance itself. vLLM's own example, from its repository; it takes "
         "instances\n# in turn: a host (the first of an instance) and a port for each.\n"
         "python3 tests/v1/kv_connector/nixl_integration/toy_proxy_server.py --port 8192 --prefiller-hosts PREFILL "
         "--prefiller-ports 8000 --decoder-hosts DECODE --decoder-ports 8000\n";
}

}  // namespace

const EngineLaunch kVllmLaunch{"vllm", "json", 8000, 1, false, vllm_command, vllm_notes, vllm_router};

}  // namespace epsim
