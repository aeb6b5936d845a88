// Choices that depend on a copy's rank alone, not on where the copies are.
#pragma once

#include <cstdint>
#include <vector>

namespace epsim {

// The copy that vLLM uses for row `token` of a batch: (token * 2654435769 mod 2^32) mod copies.
int vllm_copy(std::uint32_t token, int copies);
// Share of each copy over the rows 0 .. tokens - 1.
std::vector<double> vllm_shares(int tokens, int copies);

// The same for vllm-ascend, which gives row `token` of GPU `gpu` the copy (token mod 1024 + gpu + expert) mod copies.
std::vector<double> ascend_shares(int tokens, int gpu, int expert, int copies);

// Share of each copy when it is a uniform 16-bit number modulo their count.
std::vector<double> sglang_dynamic_shares(int copies);

}  // namespace epsim
