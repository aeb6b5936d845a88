// vLLM's knobs, their names, and what its API server chooses where the user does not, by GPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/config.h"
#include "sim/scheduler/engine_profile.h"

namespace epsim {

struct VllmKnobs {
  bool chunked_prefill = true;                    // a prompt may be cut
  std::int64_t long_prefill_token_threshold = 0;  // longest chunk; 0 = none
  bool reserve_full_isl = false;                  // a prompt enters when all of it fits, not its first chunk alone
};

std::span<const Key> vllm_keys();  // v0.9, v0.10
std::span<const Key> vllm_0_14_keys();
void read_vllm(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out);
void read_vllm_0_14(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out);

// Tokens and sequences of a step, and the captured sizes in tokens.
EngineDefault<std::int64_t> vllm_batched_tokens(const EngineSite& site);
EngineDefault<std::int64_t> vllm_sequences(const EngineSite& site);
EngineDefault<std::vector<std::int64_t>> vllm_graph_sizes(std::int64_t sequences);
// Of batches of up to so many sequences with so many tokens each, in steps of up to `budget` tokens.
EngineDefault<std::vector<std::int64_t>> vllm_0_14_graph_sizes(std::int64_t sequences, int tokens, std::int64_t budget);

}  // namespace epsim
