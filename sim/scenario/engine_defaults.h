// What the engines choose where the user does not: by GPU, by size of the instance, by network. Each with its source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/catalogue/hardware_profile.h"
#include "models/step/step_parts.h"
#include "sim/domain/cluster_spec.h"
#include "sim/scenario/serving_options.h"

namespace epsim {

struct Scenario;

// What an engine's defaults depend on.
struct EngineSite {
  int dp_ranks = 1;
  int gpus = 8;  // of the instance
  std::string gpu = "H100";
  Bytes gpu_memory{80.0 * 1073741824.0};
  bool can_capture = false;      // CUDA graphs can hold the exchange of tokens (can_capture())
  bool fraction_stated = false;  // memory.static_fraction is given: the engine's own does not count
};
EngineSite site_of(const ClusterSpec& cluster, int dp_ranks, const DispatchOptions& dispatch, bool fraction_stated);

template <class T>
struct EngineDefault {
  T value;
  std::string source;
};

// What a scenario says of its CUDA graphs.
struct GraphWishes {
  std::optional<std::int64_t> largest;  // cuda_graph_max_bs
  bool pad = true, speculative = false;
};

// SGLang: tokens of a chunk, for all DP ranks together; captured batch sizes in requests, ascending, none where
// `largest` is below 1; requests of a DP rank, 0 = no limit of its own; the fraction of static memory.
EngineDefault<std::int64_t> sglang_chunk(const EngineSite& site);
EngineDefault<std::vector<std::int64_t>> sglang_graph_sizes(const EngineSite& site, const GraphWishes& wishes);
EngineDefault<std::int64_t> sglang_running(int dp_ranks, bool speculative);
EngineDefault<double> sglang_static_fraction(const EngineSite& site, bool speculative);
// vLLM's API server: tokens and sequences of a step, and the captured sizes in tokens.
EngineDefault<std::int64_t> vllm_batched_tokens(const EngineSite& site);
EngineDefault<std::int64_t> vllm_sequences(const EngineSite& site);
EngineDefault<std::vector<std::int64_t>> vllm_graph_sizes(std::int64_t sequences);

// dispatch.transport of an instance with this role. DeepEP wherever its kernels were measured on the cluster's links,
// as those are the links that it runs on.
EngineDefault<std::string> default_transport(std::string_view engine, const ClusterSpec& cluster,
                                             const NetworkProfile& links, int dp_ranks, InstanceRole role);

// CUDA graphs need messages of a fixed size.
bool can_capture(const DispatchOptions& dispatch);

// Settings that the engine would refuse or change, each with the reason.
std::vector<std::string> engine_warnings(const Scenario& scenario);

}  // namespace epsim
