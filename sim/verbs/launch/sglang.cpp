// SGLang's commands: docs.sglang.io, server arguments, expert parallelism, router.
#include <fmt/format.h>

#include "sim/verbs/launch/engine_launch.h"

namespace epsim {
namespace {

// v0.4.8 has --enable-ep-moe where later ones have --ep-size.
bool before_ep_size(const CapacityDesign& d) { return engine_version(d.engine) == "sglang_0_4_8"; }

std::string sglang_command(const LaunchedPool& pool) {
  const CapacityDesign& d = pool.design;
  std::string out = pool.low_latency_rows > 0
                        ? fmt::format("SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK={} ", pool.low_latency_rows)
                        : "";
  out += fmt::format("python3 -m sglang.launch_server --model-path $MODEL --trust-remote-code --tp-size {}", d.gpus);
  if (!pool.dense && d.ep_ranks() > 1) {
    out += before_ep_size(d) ? " --enable-ep-moe" : fmt::format(" --ep-size {}", d.ep_ranks());
  }
  if (pool.deep_ep) {  // --enable-deepep-moe before 0.4.10
    out +=
        before_ep_size(d) ? " --enable-deepep-moe --deepep-mode auto" : " --moe-a2a-backend deepep --deepep-mode auto";
  }
  if (pool.ranks() > 1) {
    out += fmt::format(" --dp-size {} --enable-dp-attention", pool.ranks());
  }
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
  if (pool.beyond_model) {  // configs/model_config.py
    out = fmt::format("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 {} --context-length {}", out, pool.context);
  }
  return out + " --host 0.0.0.0";
}

// Keys count per rank; these flags are divided by the ranks (managers/scheduler.py, tp_worker.py).
std::optional<std::string> sglang_flag(const std::string& knob, const std::string& value, const CapacityDesign& d) {
  const bool of_rank = (knob == "chunked_prefill_size" || knob == "max_running_requests") && value != "-1";
  const std::string given = of_rank ? std::to_string(std::stoll(value) * (d.gpus / d.attention_tp)) : value;
  // server_args.py
  return flag_among(
      {"chunked_prefill_size", "max_prefill_tokens", "enable_mixed_chunk", "max_running_requests", "schedule_policy",
       "page_size", "schedule_conservativeness", "mem_fraction_static", "disable_radix_cache", "attention_backend",
       "disable_overlap_schedule", "disable_cuda_graph", "cuda_graph_max_bs", "disable_cuda_graph_padding"},
      knob, given, "");
}

std::string sglang_notes(const LaunchedPool&) { return ""; }

std::string sglang_router(std::span<const LaunchedPool> pools) {
  if (pools.size() > 1) {
    return "# the router: --prefill and --decode once for each instance\npython3 -m sglang_router.launch_router "
           "--pd-disaggregation --policy round_robin --prefill http://PREFILL:30000 --decode http://DECODE:30000\n";
  }
  return std::string(
             "# the router\npython3 -m sglang_router.launch_router --policy round_robin --worker-urls "
             "http://INSTANCE:30000\n") +
         (pools.front().hosts.beside > 1 ? "# of each host one URL for each port\n" : "");
}

}  // namespace

// DP ranks take ports behind the instance's own (server_args.py, PortArgs).
const EngineLaunch kSglangLaunch{"sglang",       "json",      30000,        1000,
                                 sglang_command, sglang_flag, sglang_notes, sglang_router};

}  // namespace epsim
