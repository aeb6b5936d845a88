// TensorRT-LLM's knobs, their names, and what trtllm-serve chooses where the user does not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/config.h"
#include "sim/scheduler/engine_profile.h"

namespace epsim {

struct TrtllmKnobs {
  bool chunked_prefill = false;  // a prompt may be cut
  // Prompts that would start beside decodes wait for so many steps, or until the batch has so many tokens.
  std::int64_t batch_wait_timeout_iters = 0;
  double batch_wait_max_tokens_ratio = 0;  // of max_num_tokens
  bool budget_counts_hits = false;         // what the prefix cache holds of a prompt counts against max_num_tokens
};

std::span<const Key> trtllm_keys();
void read_trtllm(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out);
void read_trtllm_1_2(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out);

// Captured batch sizes in requests, ascending; padded ones beyond 128 every 64th, or by doubling (`sparse`).
EngineDefault<std::vector<std::int64_t>> trtllm_graph_sizes(std::int64_t largest, bool pad, bool sparse);

}  // namespace epsim
