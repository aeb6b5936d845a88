// The random numbers that benchmarks compute with. A value depends on its seed and index alone and is the same on host
// and device, so that a reference is computed on the host without copying inputs back.
//   Models : uniform values in [-1, 1) on a grid that the type holds exactly: 1/128 for bf16, 1/8 for fp8 e4m3.
//   Source : SplitMix64's finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define EPSIM_HOST_DEVICE __host__ __device__
#else
#define EPSIM_HOST_DEVICE
#endif

namespace epsim::measure {

EPSIM_HOST_DEVICE inline std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// `steps` is the number of grid steps in 1: 128 for bf16, 8 for e4m3. Exact in float.
EPSIM_HOST_DEVICE inline float random_value(std::uint64_t seed, std::uint64_t index, int steps) {
  const std::uint64_t draw = mix_bits(seed * 0xd1342543de82ef95ULL + index) >> 40;  // 24 bits
  const int on_grid = static_cast<int>(draw % static_cast<std::uint64_t>(2 * steps)) - steps;
  return static_cast<float>(on_grid) / static_cast<float>(steps);
}

inline constexpr int kBf16Steps = 128;
inline constexpr int kFp8Steps = 8;

}  // namespace epsim::measure
