// Near-normal numbers by the vector: what drawing one load per expert, layer and step needs to be cheap.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sim/core/fingerprint.h"

namespace epsim {

// Four numbers side by side; g++ and clang turn operations on these into vector instructions.
using FloatX4 = float __attribute__((vector_size(16)));
using WordX4 = std::uint32_t __attribute__((vector_size(16)));
using IntX4 = std::int32_t __attribute__((vector_size(16)));
inline constexpr std::size_t kLanes = 4;

inline FloatX4 load_x4(const float* from) {
  FloatX4 x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
inline void store_x4(float* to, FloatX4 x) { std::memcpy(to, &x, sizeof x); }

// Sums of eight uniform bytes, centred: mean 0, deviation kDeviation, excess kurtosis -0.15, within +-4.88 deviations.
// Four xoshiro128+ generators side by side (Blackman and Vigna 2018: no multiplication), seeded from a 64-bit key.
class ByteGaussian {
 public:
  // A uniform byte has mean 127.5 and variance (256^2 - 1) / 12 = 5461.25.
  static constexpr float kMean = 8 * 127.5F;
  static constexpr double kDeviation = 209.02153;  // sqrt(8 * 5461.25)

  explicit ByteGaussian(std::uint64_t key) : a_(words(key)), b_(words(key)), c_(words(key)), d_(words(key) | 1U) {}

  FloatX4 next() {
    const WordX4 x = a_ + d_;
    advance();
    const WordX4 y = a_ + d_;
    advance();
    // Two 16-bit sums of four bytes each, then one; nothing carries across, as each stays below 2^11.
    const WordX4 pairs = (x & kLowBytes) + ((x >> 8) & kLowBytes) + (y & kLowBytes) + ((y >> 8) & kLowBytes);
    const WordX4 sum = (pairs & 0xffffU) + (pairs >> 16);
    return __builtin_convertvector(reinterpret_cast<const IntX4&>(sum), FloatX4) - kMean;
  }

 private:
  static constexpr std::uint32_t kLowBytes = 0x00ff00ffU;
  void advance() {
    const WordX4 t = b_ << 9;
    c_ ^= a_;
    d_ ^= b_;
    b_ ^= c_;
    a_ ^= d_;
    c_ ^= t;
    d_ = (d_ << 11) | (d_ >> 21);
  }
  // The next four words of SplitMix64, which moves `key` on.
  static WordX4 words(std::uint64_t& key) {
    const std::uint64_t x = Fingerprint::mix(key += 0x9e3779b97f4a7c15ULL);
    const std::uint64_t y = Fingerprint::mix(key += 0x9e3779b97f4a7c15ULL);
    return WordX4{static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(x >> 32), static_cast<std::uint32_t>(y),
                  static_cast<std::uint32_t>(y >> 32)};
  }
  WordX4 a_, b_, c_, d_;  // seeded in this order; d_ | 1: a generator's state may not be all zero
};

}  // namespace epsim
