// What SGLang v0.5 chooses where the user does not, by GPU and by size of the instance.
//   Source : SGLang v0.5.9, server_args.py: _handle_gpu_memory_settings, _generate_cuda_graph_batch_sizes,
//            _handle_model_specific_adjustments (DeepSeek-V3: trtllm_mla on Blackwell).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/scheduler/engine_profile.h"

namespace epsim {

// Tokens of a chunk, for all DP ranks together.
EngineDefault<std::int64_t> sglang_0_5_chunk(const EngineSite& site);
// Captured batch sizes in requests, ascending.
EngineDefault<std::vector<std::int64_t>> sglang_0_5_graph_sizes(const EngineSite& site, const GraphWishes& wishes);
// What the fraction of static memory depends on beside the site.
struct SglangReserve {
  std::int64_t chunk = 0;          // prompt tokens of a step, for all DP ranks together
  std::int64_t largest_graph = 0;  // requests
  bool speculative = false;
};
EngineDefault<double> sglang_0_5_static_fraction(const EngineSite& site, const SglangReserve& reserve);
// Of models with MLA: trtllm_mla on Blackwell, and elsewhere the default of 0.4 on that GPU.
EngineDefault<std::string> sglang_0_5_attention_backend(const EngineSite& site, const std::string& of_0_4);
// Whether SGLang gives layers with sliding windows a pool of their own (model_config.py, is_hybrid_swa_model). Of the models that
// epsim knows it does so for gpt-oss; a model that does not say what it is counts as one of those.
bool sglang_0_5_shares_windows(const EngineSite& site);
// Tokens that those layers keep, over those of the others.
EngineDefault<double> sglang_0_5_window_share(const EngineSite& site);

}  // namespace epsim
