// TensorRT-LLM's commands: nvidia.github.io/TensorRT-LLM, commands/trtllm-serve, features/disagg-serving and
// examples/disaggregated/README.md.
#include <fmt/format.h>

#include "sim/verbs/launch/engine_launch.h"

namespace epsim {
namespace {

std::string trtllm_command(const LaunchedPool& pool) {
  const CapacityDesign& d = pool.design;
  const bool prefill = d.role == InstanceRole::kPrefill;
  std::string out = fmt::format("printf 'enable_attention_dp: {}\\n", d.attention_tp < d.gpus ? "true" : "false");
  if (!prefill) {
    out += "cuda_graph_config: {enable_padding: true}\\n";
  }
  if (!pool.experts.name.empty()) {
    // Only the wide-EP backend balances (tensorrt_llm/_torch/modules/fused_moe/create_moe.py); MoeConfig.load_balancer.
    out += fmt::format("moe_config: {{backend: WIDEEP, load_balancer: {}}}\\n", pool.experts.name);
  }
  if (!pool.whole()) {  // the buffer holds the longest request
    out += fmt::format("{}cache_transceiver_config: {{backend: DEFAULT, max_tokens_in_buffer: {}}}\\n",
                       prefill ? "disable_overlap_scheduler: true\\n" : "", pool.context);
  }
  return out + fmt::format(
                   "' > options.yaml\n{}trtllm-serve $MODEL --backend pytorch --tp_size {}{} "
                   "--extra_llm_api_options options.yaml --host 0.0.0.0",
                   pool.hosts.each > 1 ? "trtllm-llmapi-launch " : "", d.gpus,
                   pool.dense ? "" : fmt::format(" --ep_size {}", d.ep_ranks()));
}

std::optional<std::string> trtllm_flag(const std::string& knob, const std::string& value, const CapacityDesign&) {
  if (knob == "cuda_graph_padding_enabled" && value == "true") {
    return "";  // among its options
  }
  if (knob == "max_num_tokens" || knob == "max_batch_size") {
    return fmt::format(" --{} {}", knob, value);
  }
  return std::nullopt;
}

std::string trtllm_notes(const LaunchedPool& pool) {
  const int tp = pool.design.attention_tp;
  return tp > 1 && tp < pool.design.gpus ? "# TensorRT-LLM has attention TP 1 or that of all GPUs.\n" : "";
}

std::string trtllm_router(std::span<const LaunchedPool> pools) {
  if (pools.size() == 1) {
    return kInTurn;
  }
  const auto servers = [](const LaunchedPool& pool, const char* host) {
    std::string urls;
    for (int i = 0; i < pool.instances; ++i) {
      urls += fmt::format("{}\"{}_{}:8000\"", i == 0 ? "" : ", ", host, i);
    }
    return fmt::format("{{num_instances: {}, urls: [{}]}}", pool.instances, urls);
  };
  return fmt::format(
      "# Requests go to this server, never to an instance itself. It takes instances in turn: the first host of each.\n"
      "printf 'hostname: 0.0.0.0\\nport: 8000\\nbackend: pytorch\\ncontext_servers: {}\\ngeneration_servers: {}\\n' "
      "> disaggregated.yaml\ntrtllm-serve disaggregated -c disaggregated.yaml\n",
      servers(pools.front(), "PREFILL"), servers(pools.back(), "DECODE"));
}

}  // namespace

const EngineLaunch kTrtllmLaunch{"trtllm", "yaml", 8000, 1, trtllm_command, trtllm_flag, trtllm_notes, trtllm_router};

}  // namespace epsim
