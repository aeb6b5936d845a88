#include "sim/verbs/capacity_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "models/catalogue/catalogue.h"
#include "policies/plan_formats.h"
#include "policies/registry.h"
#include "sim/core/text.h"
#include "sim/scheduler/engines.h"
#include "sim/study/capacity_scenario.h"

namespace epsim {
namespace {

enum class EngineKind { kSglang, kVllm, kTrtllm };

// "sglang" stands for one of its versions.
std::string_view engine_version(std::string_view engine) {
  for (const EngineAlias& alias : kEngineAliases) {
    engine = alias.name == engine ? alias.engine : engine;
  }
  return engine;
}

EngineKind kind_of(const std::string& engine) {
  return engine.starts_with("vllm")     ? EngineKind::kVllm
         : engine.starts_with("trtllm") ? EngineKind::kTrtllm
                                        : EngineKind::kSglang;
}

// Where the processes of an instance run: on several hosts, or beside others on one.
struct Hosts {
  int each = 1;    // of an instance
  int beside = 1;  // instances on one
  int gpus = 0;    // of an instance on each
};

Hosts hosts_of(const CapacityDesign& d) {
  const int of_host = find_node(d.node).spec.gpus_per_host, of_node = d.gpus / d.nodes;
  const int per_node = (of_node + of_host - 1) / of_host;
  return {d.nodes * per_node, std::max(1, of_host / of_node), of_node / per_node};
}

std::string role_name(const CapacityPool& pool) {
  return std::string(kInstanceRoleNames[static_cast<std::size_t>(pool.design.role)]);
}

// What a pool's experts are at, in the engine's own file; `refused`: why there is none.
struct ExpertFile {
  std::string name, text, refused;
  int copies = 0;  // of a layer
  bool deep_ep = false;
  std::int64_t context = 0;  // tokens that a request may have
};

// Of the demand's longest request, in whole 1024s as models' own contexts are; a rank's KV pool must hold it.
std::int64_t context_of(const PlannedPool& planned) {
  constexpr std::int64_t kUnit = 1024;
  return std::min((planned.longest_request + kUnit - 1) / kUnit * kUnit, planned.kv_tokens_of_rank);
}

ExpertFile expert_file(const PlannedPool& planned, const CapacityPool& pool) {
  ExpertFile out;
  out.deep_ep = planned.deep_ep;
  out.context = context_of(planned);
  if (pool.design.policy == experts_in_order().name || planned.layer_numbers.empty()) {  // a dense model has none
    return out;
  }
  const EngineKind kind = kind_of(pool.design.engine);
  const char* format = kind == EngineKind::kSglang ? "sglang" : kind == EngineKind::kVllm ? "vllm" : "trtllm";
  try {
    out.text = export_plan(planned.plan, {planned.layer_numbers, planned.layers}, format);
    out.name = fmt::format("experts-{}.{}", role_name(pool), kind == EngineKind::kTrtllm ? "yaml" : "json");
    out.copies = static_cast<int>(planned.plan.layers.front().slots.size()) - planned.plan.experts;
  } catch (const InputError& e) {
    out.refused = e.what();
  }
  return out;
}

// A knob of the `serving` section as a flag of the engine, where it is one under the same name (docs/serving.md):
// SGLang's server_args.py and vLLM's arg_utils.py have dashes, trtllm-serve underscores. Nothing for the others.
std::optional<std::string> flag_of(const std::string& knob, std::string value, const CapacityDesign& design) {
  constexpr std::string_view kSglang[] = {
      "chunked_prefill_size",      "max_prefill_tokens",        "enable_mixed_chunk",
      "max_running_requests",      "schedule_policy",           "page_size",
      "schedule_conservativeness", "mem_fraction_static",       "disable_radix_cache",
      "attention_backend",         "disable_overlap_schedule",  "disable_cuda_graph",
      "cuda_graph_max_bs",         "disable_cuda_graph_padding"};
  constexpr std::string_view kVllm[] = {"max_num_batched_tokens",  "max_num_seqs",  "gpu_memory_utilization",
                                        "num_gpu_blocks_override", "block_size",    "enable_prefix_caching",
                                        "enable_chunked_prefill",  "enforce_eager", "long_prefill_token_threshold"};
  constexpr std::string_view kTrtllm[] = {"max_num_tokens", "max_batch_size"};
  const EngineKind kind = kind_of(design.engine);
  if (kind == EngineKind::kTrtllm && knob == "cuda_graph_padding_enabled" && value == "true") {
    return "";  // among its options
  }
  const auto has = [&](const auto& flags) {
    return std::find(std::begin(flags), std::end(flags), knob) != std::end(flags);
  };
  if (!(kind == EngineKind::kSglang ? has(kSglang) : kind == EngineKind::kVllm ? has(kVllm) : has(kTrtllm))) {
    return std::nullopt;
  }
  std::string name = knob;
  if (kind != EngineKind::kTrtllm) {
    std::replace(name.begin(), name.end(), '_', '-');
  }
  if (value == "true" || value == "false") {
    const char* off = kind == EngineKind::kVllm ? " --no-" : "";
    return value == "true" ? " --" + name : *off != 0 ? off + name : "";
  }
  // Keys count per rank; SGLang divides these flags by the ranks (managers/scheduler.py, tp_worker.py).
  const int ranks = design.gpus / design.attention_tp;
  if (kind == EngineKind::kSglang && (knob == "chunked_prefill_size" || knob == "max_running_requests") &&
      value != "-1") {
    value = std::to_string(std::stoll(value) * ranks);
  }
  return fmt::format(" --{} {}", name, value);
}

// The scenario's own knobs as flags; `missing`: those that are none.
std::string knob_flags(const CapacityQuestion& question, const CapacityPool& pool, std::vector<std::string>& missing) {
  const std::vector<CapacityPool> pools(pool.design.role == InstanceRole::kWhole ? 1 : 2, pool);
  std::string out;
  for (const auto& [knob, value] : capacity_scenario(question, pools).root().section("serving").rest()) {
    if (const auto flag = flag_of(knob, value, pool.design)) {
      out += *flag;
    } else if (knob != "engine") {
      missing.push_back(fmt::format("serving.{}={}", knob, value));
    }
  }
  return out;
}

// SGLang v0.4.8 has --enable-ep-moe where later ones have --ep-size (docs.sglang.io, expert parallelism).
std::string sglang_command(const CapacityPool& pool, const ExpertFile& experts, bool dense) {
  const CapacityDesign& d = pool.design;
  const int ranks = d.gpus / d.attention_tp;
  std::string out =
      fmt::format("python3 -m sglang.launch_server --model-path $MODEL --trust-remote-code --tp-size {}", d.gpus);
  const bool old = engine_version(d.engine) == "sglang_0_4_8";
  if (!dense) {
    out += old ? " --enable-ep-moe" : fmt::format(" --ep-size {}", d.gpus);
  }
  if (experts.deep_ep) {  // --enable-deepep-moe before 0.4.10
    out += old ? " --enable-deepep-moe --deepep-mode auto" : " --moe-a2a-backend deepep --deepep-mode auto";
  }
  if (ranks > 1) {
    out += fmt::format(" --dp-size {} --enable-dp-attention", ranks);
  }
  if (const int hosts = hosts_of(d).each; hosts > 1) {
    out += fmt::format(" --nnodes {} --node-rank $NODE_RANK --dist-init-addr $LEADER:5000", hosts);
  }
  if (d.role != InstanceRole::kWhole) {
    out += " --disaggregation-mode " + role_name(pool);
  }
  if (!experts.name.empty()) {
    out += fmt::format(" --init-expert-location {} --ep-num-redundant-experts {}", experts.name, experts.copies);
  }
  return out + " --host 0.0.0.0";
}

// docs.vllm.ai, data parallel and expert parallel deployment, v0.10 (vllm_v1) and v0.14. Without --max-model-len an
// engine does not start whose KV pool is smaller than the model's context (vllm/v1/core/kv_cache_utils.py).
std::string vllm_command(const CapacityPool& pool, const ExpertFile& experts, bool dense) {
  const CapacityDesign& d = pool.design;
  const int ranks = d.gpus / d.attention_tp, hosts = hosts_of(d).each;
  const bool old = engine_version(d.engine) == "vllm_v1";
  std::string out = fmt::format(
      "vllm serve $MODEL --trust-remote-code{} --tensor-parallel-size {} --data-parallel-size {} --max-model-len {}",
      dense ? "" : " --enable-expert-parallel", d.attention_tp, ranks, experts.context);
  if (hosts > 1 && ranks == 1) {  // one rank over all hosts (parallelism_scaling)
    out += fmt::format(
        " --nnodes {} --node-rank $NODE_RANK --master-addr $LEADER $([ $NODE_RANK = 0 ] || echo --headless)", hosts);
  } else if (hosts > 1) {
    const int local = std::max(1, ranks / hosts);
    out += fmt::format(
        " --data-parallel-size-local {0} --data-parallel-start-rank $((NODE_RANK * {0})) "
        "--data-parallel-address $LEADER --data-parallel-rpc-port 13345 $([ $NODE_RANK = 0 ] || echo --headless)",
        local);
  }
  if (experts.copies > 0) {  // v0.12 has no --num-redundant-experts (config/parallel.py of v0.11)
    out += old ? fmt::format(" --enable-eplb --num-redundant-experts {}", experts.copies)
               : fmt::format(" --enable-eplb --eplb-config '{{\"num_redundant_experts\": {}}}'", experts.copies);
  }
  if (experts.deep_ep) {  // vLLM pull request 26732, in v0.11.1: --all2all-backend in place of the variable
    const char* backend = d.role == InstanceRole::kPrefill ? "deepep_high_throughput" : "deepep_low_latency";
    out = old ? fmt::format("VLLM_ALL2ALL_BACKEND={} {}", backend, out)
              : fmt::format("{} --all2all-backend {}", out, backend);
  }
  if (d.role != InstanceRole::kWhole) {  // docs.vllm.ai, nixl_connector_usage; the host defaults to localhost
    out = "VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname -I | cut -d ' ' -f 1) " + out +
          " --kv-transfer-config '{\"kv_connector\": \"NixlConnector\", \"kv_role\": \"kv_both\"}'";
  }
  return out;
}

// nvidia.github.io/TensorRT-LLM, commands/trtllm-serve; MoeConfig.load_balancer takes the file. Apart as in its
// features/disagg-serving and examples/disaggregated/README.md; the buffer holds the longest request.
std::string trtllm_command(const CapacityPool& pool, const ExpertFile& experts, bool dense) {
  const CapacityDesign& d = pool.design;
  std::string out = fmt::format("printf 'enable_attention_dp: {}\\n", d.attention_tp < d.gpus ? "true" : "false");
  if (d.role != InstanceRole::kPrefill) {
    out += "cuda_graph_config: {enable_padding: true}\\n";
  }
  if (!experts.name.empty()) {
    // Only the wide-EP backend balances (tensorrt_llm/_torch/modules/fused_moe/create_moe.py).
    out += fmt::format("moe_config: {{backend: WIDEEP, load_balancer: {}}}\\n", experts.name);
  }
  if (d.role != InstanceRole::kWhole) {
    out += fmt::format("{}cache_transceiver_config: {{backend: DEFAULT, max_tokens_in_buffer: {}}}\\n",
                       d.role == InstanceRole::kPrefill ? "disable_overlap_scheduler: true\\n" : "", experts.context);
  }
  return out + fmt::format(
                   "' > options.yaml\n{}trtllm-serve $MODEL --backend pytorch --tp_size {}{} "
                   "--extra_llm_api_options options.yaml --host 0.0.0.0",
                   hosts_of(d).each > 1 ? "trtllm-llmapi-launch " : "", d.gpus,
                   dense ? "" : fmt::format(" --ep_size {}", d.gpus));
}

std::string engine_command(const CapacityPool& pool, const ExpertFile& experts, bool dense) {
  switch (kind_of(pool.design.engine)) {
    case EngineKind::kSglang:
      return sglang_command(pool, experts, dense);
    case EngineKind::kVllm:
      return vllm_command(pool, experts, dense);
    case EngineKind::kTrtllm:
      break;
  }
  return trtllm_command(pool, experts, dense);
}

int first_port(const CapacityDesign& d) { return kind_of(d.engine) == EngineKind::kSglang ? 30000 : 8000; }
// From one instance of a node to the next: SGLang's DP ranks take ports behind its own (server_args.py, PortArgs).
int port_step(const CapacityDesign& d) { return kind_of(d.engine) == EngineKind::kSglang ? 1000 : 1; }

// The command with its port; once for each instance where they share a host.
std::string on_a_host(const CapacityDesign& d, const std::string& command) {
  const int beside = hosts_of(d).beside;
  if (beside == 1) {
    return fmt::format("{} --port {}", command, first_port(d));
  }
  return fmt::format(
      "for SLOT in $(seq 0 {0}); do\n  export CUDA_VISIBLE_DEVICES=$(seq -s , $((SLOT * {1})) $((SLOT * {1} + {2})))\n"
      "  {3} --port $(({4} + SLOT{5})) &\ndone\nwait",
      beside - 1, d.gpus, d.gpus - 1, command, first_port(d),
      port_step(d) > 1 ? fmt::format(" * {}", port_step(d)) : "");
}

// What the engine cannot do as the run had it.
std::string notes_of(const CapacityQuestion& question, const CapacityPool& pool, const ExpertFile& experts,
                     const std::vector<std::string>& missing) {
  const CapacityDesign& d = pool.design;
  const EngineKind kind = kind_of(d.engine);
  std::string out;
  const Hosts hosts = hosts_of(d);
  if (hosts.each > d.nodes) {
    out += fmt::format("# Each instance: {} hosts with {} GPUs.\n", hosts.each, hosts.gpus);
  }
  if (kind == EngineKind::kVllm && d.attention_tp > hosts.gpus && d.attention_tp < d.gpus) {
    out += fmt::format("# A DP rank of {} GPUs spans hosts of {}: vLLM starts such ranks by Ray.\n", d.attention_tp,
                       hosts.gpus);
  }
  if (kind == EngineKind::kVllm && question.dense && hosts.each > 1 && engine_version(d.engine) == "vllm_v1") {
    out += "# vllm_v1's releases start tensor parallelism over nodes by Ray, without --nnodes and what follows it.\n";
  }
  if (kind == EngineKind::kVllm) {
    out += "# --max-model-len is the demand's longest request, in whole 1024s; vLLM refuses longer ones.\n";
  }
  if (!experts.refused.empty()) {
    out += fmt::format("# Experts start in order: {}\n", experts.refused);
  }
  if (kind == EngineKind::kVllm && !experts.name.empty()) {
    out +=
        fmt::format("# No released vLLM reads {}: it starts in order and plans by itself (vllm pull request 49572).\n",
                    experts.name);
  }
  if (kind == EngineKind::kTrtllm && d.attention_tp > 1 && d.attention_tp < d.gpus) {
    out += "# TensorRT-LLM has attention TP 1 or that of all GPUs.\n";
  }
  const auto without_flag = [&](const std::string& setting) {
    out += "# The runs had " + setting + "; the command below has no flag for it.\n";
  };
  for (const auto* settings : {&question.settings, &d.settings}) {
    for (const std::string& setting : *settings) {
      const auto starts = [&](std::string_view section) { return setting.starts_with(section); };
      if (!starts("requests") && !starts("loads") && !starts("plan_loads") && !starts("policies") &&
          !starts("serving")) {
        without_flag(setting);
      }
    }
  }
  std::for_each(missing.begin(), missing.end(), without_flag);
  return out;
}

// What requests are sent to.
std::string router_text(const CapacityOption& option) {
  const CapacityDesign& first = option.pools.front().design;
  const EngineKind kind = kind_of(first.engine);
  const bool apart = option.pools.size() > 1;
  if (kind == EngineKind::kSglang) {
    return apart ? "# the router: --prefill and --decode once for each instance\npython3 -m "
                   "sglang_router.launch_router --pd-disaggregation --policy round_robin --prefill "
                   "http://PREFILL:30000 --decode http://DECODE:30000\n"
                 : "# the router\npython3 -m sglang_router.launch_router --policy round_robin --worker-urls "
                   "http://INSTANCE:30000\n" +
                       std::string(hosts_of(first).beside > 1 ? "# of each host one URL for each port\n" : "");
  }
  if (!apart) {
    return "# Spread requests over all instances, one after the other, as the runs did.\n";
  }
  if (kind == EngineKind::kVllm) {  // docs.vllm.ai, nixl_connector_usage
    return "# Requests go to a proxy, never to an instance itself. vLLM's own example, from its repository; it takes "
           "instances\n# in turn: a host (the first of an instance) and a port for each.\n"
           "python3 tests/v1/kv_connector/nixl_integration/toy_proxy_server.py --port 8192 --prefiller-hosts PREFILL "
           "--prefiller-ports 8000 --decoder-hosts DECODE --decoder-ports 8000\n";
  }
  const auto servers = [&](const CapacityPool& pool, const char* host) {
    std::string urls;
    const int instances = pool.instances + option.spare;
    for (int i = 0; i < instances; ++i) {
      urls += fmt::format("{}\"{}_{}:8000\"", i == 0 ? "" : ", ", host, i);
    }
    return fmt::format("{{num_instances: {}, urls: [{}]}}", instances, urls);
  };
  return fmt::format(
      "# Requests go to this server, never to an instance itself. It takes instances in turn: the first host of each.\n"
      "printf 'hostname: 0.0.0.0\\nport: 8000\\nbackend: pytorch\\ncontext_servers: {}\\ngeneration_servers: {}\\n' "
      "> disaggregated.yaml\ntrtllm-serve disaggregated -c disaggregated.yaml\n",
      servers(option.pools.front(), "PREFILL"), servers(option.pools.back(), "DECODE"));
}

// One pool as a LeaderWorkerSet (leaderworkerset.x-k8s.io/v1): a replica is an instance, its size the hosts.
std::string worker_set(const CapacityPool& pool, int spare, const std::string& command) {
  const Hosts hosts = hosts_of(pool.design);
  return fmt::format(
      "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata:\n  name: {}\nspec:\n  replicas: {}\n"
      "  leaderWorkerTemplate:\n    size: {}\n    workerTemplate:\n      spec:\n        containers:\n"
      "          - name: engine\n            image: IMAGE  # of {}\n            env: [{{name: MODEL, value: MODEL}}]\n"
      "            command: [sh, -c]\n            args:\n              - |\n"
      "                export NODE_RANK=$LWS_WORKER_INDEX LEADER=$LWS_LEADER_ADDRESS\n                {}\n"
      "            resources: {{limits: {{nvidia.com/gpu: {}}}}}\n---\n",
      role_name(pool), pool.instances + spare, hosts.each, engine_version(pool.design.engine),
      replaced(command, "\n", "\n                "), hosts.gpus);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> launch_files(const CapacityQuestion& question,
                                                              const CapacityOption& option) {
  const CapacityDesign& first = option.pools.front().design;
  const std::string engine(engine_version(first.engine));
  std::string script = fmt::format(
      "#!/bin/sh\n# {} for {}. MODEL: a checkpoint with {} weights. On each host of an instance: NODE_RANK from 0, "
      "LEADER the\n"
      "# address of its first host. Flags that are not named have the engine's defaults, as in the runs but for what "
      "is noted.\n",
      engine, question.model, first.dtype);
  std::string sets = "# An example: image, volumes and network are yours.\n";
  std::vector<std::pair<std::string, std::string>> out;
  const std::vector<PlannedPool> plans = plans_of(question, option);
  for (std::size_t i = 0; i < option.pools.size(); ++i) {
    const CapacityPool& pool = option.pools[i];
    const ExpertFile experts = expert_file(plans[i], pool);
    std::vector<std::string> missing;
    const std::string command = engine_command(pool, experts, question.dense) + knob_flags(question, pool, missing);
    script +=
        fmt::format("\n# instances ({}) x nodes: {} x {}{}\n{}{}\n", role_name(pool), pool.instances + option.spare,
                    pool.design.size, hosts_of(pool.design).beside > 1 ? "; on each host:" : "",
                    notes_of(question, pool, experts, missing), on_a_host(pool.design, command));
    sets += worker_set(pool, option.spare, fmt::format("{} --port {}", command, first_port(pool.design)));
    if (!experts.name.empty()) {
      out.emplace_back(experts.name, experts.text);
    }
  }
  script += "\n" + router_text(option);
  out.emplace_back("launch.sh", script);
  out.emplace_back("leaderworkerset.yaml", sets);
  return out;
}

}  // namespace epsim
