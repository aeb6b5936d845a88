// The random numbers that benchmarks compute with. A value depends on its seed and index alone and is the same on host
// and device, so that a reference is computed on the host without copying inputs back.
//   Models : uniform values in [-1, 1) on a grid that the type holds exactly: 1/128 for bf16, 1/8 for fp8 e4m3.
//   Source : SplitMix64's finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#pragma once

#include <bit>
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

// Raw bits of a bf16: the upper half of a float's.
EPSIM_HOST_DEVICE inline float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
// Nearest, ties to even; a NaN stays one.
EPSIM_HOST_DEVICE inline std::uint16_t bf16_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// fp8 e4m3 as NVIDIA, Arm and Intel define it ("FP8 Formats for Deep Learning", 2022): bias 7, no infinities, NaN is
// S.1111.111, largest 448. Rounds to nearest, ties to even, and saturates.
EPSIM_HOST_DEVICE inline float e4m3_value(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) {
    return std::bit_cast<float>(0x7fc00000U);
  }
  const float sign = (bits & 0x80) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) {
    return sign * static_cast<float>(mantissa) / 512.0f;
  }
  const float scale = std::bit_cast<float>(static_cast<std::uint32_t>(exponent - 7 + 127) << 23);
  return sign * scale * (1.0f + static_cast<float>(mantissa) / 8.0f);
}
EPSIM_HOST_DEVICE inline std::uint8_t e4m3_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80U);
  const float size = std::bit_cast<float>(bits & 0x7fffffffU);
  if (size != size) {
    return static_cast<std::uint8_t>(sign | 0x7fU);
  }
  if (size >= 448.0f) {
    return static_cast<std::uint8_t>(sign | 0x7eU);
  }
  if (size < 0x1p-6f) {  // steps of 2^-9; adding 2^14 leaves them as the last bits of a float
    const float shifted = size + 16384.0f;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) & 15U));
  }
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t rounded = (magnitude + 0x7ffffU + ((magnitude >> 20) & 1U)) >> 20;  // exponent and 3 bits
  return static_cast<std::uint8_t>(sign | (rounded - ((127U - 7U) << 3)));
}

}  // namespace epsim::measure
