#include "sim/scenario/engine_defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "sim/scenario/scenario.h"

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

// Who moves the tokens where the user does not say: the first row that applies.
struct TransportRow {
  std::string_view engine;  // as an engine's name begins
  bool deep_ep;             // needs DeepEP's kernels, and several DP ranks
  bool decode_only;         // for decode instances
  const char *transport, *source;
};
constexpr TransportRow kTransportRows[] = {
    {"sglang_0_4_8", true, true, "deepep_low_latency",
     "SGLang v0.4.8 with --enable-deepep-moe, decode instance as in its issue 6017 (its auto mode excludes DP "
     "attention, server_args.py)"},
    {"sglang_0_4_8", true, false, "deepep_normal",
     "SGLang v0.4.8 with --enable-deepep-moe (its auto mode excludes DP attention, server_args.py)"},
    {"sglang", true, false, "deepep_auto",
     "SGLang with DeepEP turned on, --deepep-mode auto (server_args.py; with DP attention since its PR 7222)"},
    {"sglang", false, false, "allgather_reducescatter",
     "SGLang without DeepEP: no InfiniBand, no measured DeepEP kernels, or one DP rank; since its PR 8539, before that "
     "all-reduces (layers/dp_attention.py)"},
    {"vllm", false, false, "allgather_reducescatter",
     "vLLM from v0.11 (envs.py, VLLM_ALL2ALL_BACKEND); v0.9 and v0.10 broadcast and all-reduce ('naive'), unpriced"}};

bool has_curve(const LinkProfile& link, CollectiveKind kind) {
  return std::any_of(link.curves.begin(), link.curves.end(), [&](const auto& curve) { return curve.kind == kind; });
}

bool has_deep_ep(const ClusterSpec& cluster, const NetworkProfile& links) {
  const auto measured = [](const LinkProfile& link) {
    return has_curve(link, CollectiveKind::kDeepEpDispatch) &&
           has_curve(link, CollectiveKind::kDeepEpLowLatencyDispatch);
  };
  return (cluster.node.gpus == 1 || measured(links.intra)) && (cluster.nodes == 1 || measured(links.inter));
}

constexpr std::int64_t kLowLatencyTokens = 128;  // a GPU: SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK,
                                                 // layers/moe/ep_moe/token_dispatcher.py

void warn_of_graphs(const Scenario& s, std::vector<std::string>& out) {
  if (s.serving.graphs.enabled && !can_capture(s.dispatch)) {
    const bool deep_ep = s.dispatch.network.transport == Transport::kDeepEpNormal;
    out.push_back(deep_ep
                      ? "CUDA graphs are on with deepep_normal; engines turn them off, as its messages vary in size."
                      : "CUDA graphs are on with nccl_p2p, whose messages vary in size: no engine can capture them.");
  }
}

void warn_of_low_latency(const Scenario& s, std::vector<std::string>& out) {
  const DispatchOptions& decodes = s.dispatch.decode_steps != nullptr ? *s.dispatch.decode_steps : s.dispatch;
  if (decodes.network.transport != Transport::kDeepEpLowLatency) {
    return;
  }
  const std::int64_t most = kLowLatencyTokens * s.parallelism.attention_tp;
  if (s.dispatch.decode_steps == nullptr && s.serving.role != InstanceRole::kDecode &&
      s.serving.chunked_prefill_size > most) {
    out.push_back(fmt::format(
        "deepep_low_latency takes {} tokens a GPU in SGLang's default, {} a DP rank; prompts come in chunks of "
        "up to {}. deepep_auto takes the normal kernels for them.",
        kLowLatencyTokens, most, s.serving.chunked_prefill_size));
  }
  if (s.serving.max_running_requests > most) {
    out.push_back(
        fmt::format("deepep_low_latency takes {} tokens a GPU in SGLang's default, {} a DP rank; {} requests "
                    "may run at once.",
                    kLowLatencyTokens, most, s.serving.max_running_requests));
  }
}

void warn_of_auto(const Scenario& s, std::vector<std::string>& out) {
  if (s.dispatch.decode_steps != nullptr && s.serving.engine == "sglang_0_4_8" && s.parallelism.dp_ranks() > 1) {
    out.push_back(
        "SGLang v0.4.8 refuses deepep_auto with DP attention; sglang_0_4_10 takes it, or give each pool its own "
        "kernels.");
  }
}

}  // namespace

EngineSite site_of(const ClusterSpec& cluster, int dp_ranks, const DispatchOptions& dispatch, bool fraction_stated) {
  const GpuSpec& gpu = cluster.node.gpu;
  return {dp_ranks, cluster.gpus(), gpu.name, gpu.memory, can_capture(dispatch), fraction_stated};
}

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

EngineDefault<std::string> default_transport(std::string_view engine, const ClusterSpec& cluster,
                                             const NetworkProfile& links, int dp_ranks, InstanceRole role) {
  const bool deep_ep = dp_ranks > 1 && has_deep_ep(cluster, links);
  const auto row = std::find_if(std::begin(kTransportRows), std::end(kTransportRows), [&](const TransportRow& r) {
    return engine.starts_with(r.engine) && (!r.deep_ep || deep_ep) && (!r.decode_only || role == InstanceRole::kDecode);
  });
  return {row->transport, row->source};
}

bool can_capture(const DispatchOptions& dispatch) {
  const Transport decodes = (dispatch.decode_steps != nullptr ? *dispatch.decode_steps : dispatch).network.transport;
  return decodes == Transport::kDeepEpLowLatency || decodes == Transport::kAllGatherReduceScatter;
}

std::vector<std::string> engine_warnings(const Scenario& s) {
  std::vector<std::string> out;
  if (s.deployment.single()) {
    warn_of_graphs(s, out);
    warn_of_low_latency(s, out);
    warn_of_auto(s, out);
  }
  for (const InstancePool& pool : s.deployment.pools) {
    for (const std::string& warning : engine_warnings(scenario_of(s, pool))) {
      const std::string_view role = kInstanceRoleNames[static_cast<std::size_t>(pool.role)];
      out.push_back(pool.role == InstanceRole::kWhole ? warning : fmt::format("{} instances: {}", role, warning));
    }
  }
  return out;
}

}  // namespace epsim
