// TensorRT-LLM's commands: nvidia.github.io/TensorRT-LLM, commands/trtllm-serve (with Slurm on several nodes),
// features/disagg-serving and examples/disaggregated/README.md; options: llmapi/llm_args.py.
#include <fmt/format.h>

#include <map>

#include "sim/core/text.h"
#include "sim/verbs/launch/engine_launch.h"

namespace epsim {
namespace {

// Knobs that are keys of its options: of a section, or alone.
struct OptionKey {
  std::string_view knob, section, key;
};
constexpr OptionKey kOptionKeys[] = {{"cuda_graph_max_batch_size", "cuda_graph_config", "max_batch_size"},
                                     {"cuda_graph_batch_sizes", "cuda_graph_config", "batch_sizes"},
                                     {"cuda_graph_padding_enabled", "cuda_graph_config", "enable_padding"},
                                     {"attention_dp_enable_balance", "attention_dp_config", "enable_balance"},
                                     {"attention_dp_time_out_iters", "attention_dp_config", "timeout_iters"},
                                     {"attention_dp_batching_wait_iters", "attention_dp_config", "batching_wait_iters"},
                                     {"enable_block_reuse", "kv_cache_config", "enable_block_reuse"},
                                     {"tokens_per_block", "kv_cache_config", "tokens_per_block"},
                                     {"free_gpu_memory_fraction", "kv_cache_config", "free_gpu_memory_fraction"},
                                     {"capture_num_tokens", "torch_compile_config", "capture_num_tokens"},
                                     {"batch_wait_timeout_iters", "", "batch_wait_timeout_iters"},
                                     {"batch_wait_max_tokens_ratio", "", "batch_wait_max_tokens_ratio"},
                                     {"disable_overlap_scheduler", "", "disable_overlap_scheduler"}};

// Its options as a YAML file: a line for each section.
std::string options_of(const LaunchedPool& pool, GivenKnobs& knobs) {
  const bool prefill = pool.design.role == InstanceRole::kPrefill;
  std::map<std::string, std::map<std::string, std::string>> sections;
  std::map<std::string, std::string>& alone = sections[""];
  alone["enable_attention_dp"] = pool.design.attention_tp < pool.design.gpus ? "true" : "false";
  if (!pool.planned.pool.serving.graphs.enabled) {
    alone["cuda_graph_config"] = "null";
  } else if (!prefill) {
    sections["cuda_graph_config"]["enable_padding"] = "true";
  }
  if (!pool.experts.name.empty()) {
    // Only the wide-EP backend balances (tensorrt_llm/_torch/modules/fused_moe/create_moe.py); MoeConfig.load_balancer.
    sections["moe_config"] = {{"backend", "WIDEEP"}, {"load_balancer", pool.experts.name}};
  }
  if (!pool.whole()) {  // the buffer holds the longest request
    sections["cache_transceiver_config"] = {{"backend", "DEFAULT"},
                                            {"max_tokens_in_buffer", std::to_string(pool.context)}};
  }
  if (prefill) {
    knobs.take("cuda_graph_padding_enabled");
    alone["disable_overlap_scheduler"] = "true";
  }
  if (pool.fp8_cache()) {
    sections["kv_cache_config"]["dtype"] = "fp8";
  }
  if (pool.drafts().has_layer()) {
    sections["speculative_config"] = {{"decoding_type", "MTP"},
                                      {"num_nextn_predict_layers", std::to_string(pool.drafts().draft_tokens)}};
  } else if (pool.drafts().draft_tokens > 0) {
    sections["speculative_config"] = {{"decoding_type", "NGram"},
                                      {"max_draft_len", std::to_string(pool.drafts().draft_tokens)}};
  }
  knobs.take("speculative");
  knobs.take("use_cuda_graph");  // among the options
  for (const OptionKey& option : kOptionKeys) {
    if (const std::string value = knobs.take(option.knob); !value.empty()) {
      const bool list = option.key == "batch_sizes" || option.key == "capture_num_tokens";
      sections[std::string(option.section)][std::string(option.key)] =
          list ? fmt::format("[{}]", replaced(value, " ", ", ")) : value;
    }
  }
  if (!pool.planned.pool.serving.graphs.enabled) {
    sections.erase("cuda_graph_config");  // it is null
  }
  std::string out;
  for (const auto& [section, keys] : sections) {
    const std::string separator = section.empty() ? "\\n" : ", ";
    std::string text;
    for (const auto& [key, value] : keys) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : separator, key, value);
    }
    out += section.empty() ? text + "\\n" : fmt::format("{}: {{{}}}\\n", section, text);
  }
  return out;
}

// On several hosts all processes are of one MPI job, one a GPU (trtllm-llmapi-launch).
std::string trtllm_command(const LaunchedPool& pool, GivenKnobs& knobs) {
  const CapacityDesign& d = pool.design;
  const std::string job =
      pool.hosts.each == 1 ? ""
                           : fmt::format("srun -N {} --ntasks {} --ntasks-per-node={} --mpi=pmix trtllm-llmapi-launch ",
                                         pool.hosts.each, d.gpus, pool.hosts.gpus);
  std::string out = fmt::format("printf '{}' > options.yaml\n{}trtllm-serve $MODEL --backend pytorch --tp_size {}",
                                options_of(pool, knobs), job, d.gpus);
  out += pool.model().dense() ? "" : fmt::format(" --ep_size {}", d.ep_ranks());
  for (const char* knob : {"max_num_tokens", "max_batch_size"}) {
    if (const std::string value = knobs.take(knob); !value.empty()) {
      out += fmt::format(" --{} {}", knob, value);
    }
  }
  if (knobs.take("enable_chunked_prefill") == "true") {
    out += " --enable_chunked_prefill";
  }
  return out + " --trust_remote_code --extra_llm_api_options options.yaml --host 0.0.0.0";
}

std::string trtllm_notes(const LaunchedPool& pool) {
  const int tp = pool.design.attention_tp;
  std::string out;
  if (tp > 1 && tp < pool.design.gpus) {
    out += "# TensorRT-LLM has attention TP 1 or that of all GPUs.\n";
  }
  if (pool.drafts().has_layer() && pool.model().mtp_layers == 0) {
    out += kOwnDrafter;
  }
  return out;
}

std::string trtllm_router(std::span<const LaunchedPool> pools) {
  if (pools.size() == 1) {
    return spread_by(pools.front().planned.router);
  }
  const auto servers = [](const LaunchedPool& pool, const char* host) {
    std::string urls;
    for (int i = 0; i < pool.instances; ++i) {
      urls += fmt::format("{}\"{}_{}:8000\"", i == 0 ? "" : ", ", host, i);
    }
    return fmt::format("{{num_instances: {}, urls: [{}]}}", pool.instances, urls);
  };
  return not_the_router(pools.front().planned.router) +
         fmt::format(
             "# Requests go to this server, never to an instance itself. It takes instances in turn: the first host of "
             "each.\n"
             "printf 'hostname: 0.0.0.0\\nport: 8000\\nbackend: pytorch\\ncontext_servers: {}\\ngeneration_servers: "
             "{}\\n' "
             "> disaggregated.yaml\ntrtllm-serve disaggregated -c disaggregated.yaml\n",
             servers(pools.front(), "PREFILL"), servers(pools.back(), "DECODE"));
}

}  // namespace

const EngineLaunch kTrtllmLaunch{"trtllm", "yaml", 8000, 1, true, trtllm_command, trtllm_notes, trtllm_router};

}  // namespace epsim
