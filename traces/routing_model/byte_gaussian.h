// Near-normal numbers by the vector: what drawing one load per expert, layer and step needs to be cheap.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/core/fingerprint.h"
#include "traces/routing_model/row_lanes.h"

namespace epsim {

// Sums of eight uniform bytes, centred: mean 0, deviation kDeviation, excess kurtosis -0.15, within +-4.88 deviations.
// Four xoshiro128+ generators side by side (Blackman and Vigna 2018: no multiplication) for each row, seeded from the
// row's 64-bit key: a row's numbers do not depend on the rows beside it.
template <std::size_t kRows>
class ByteGaussians {
 public:
  using Float = typename RowLanes<kRows>::Float;

  EPSIM_INLINE explicit ByteGaussians(const std::uint64_t (&keys)[kRows]) {
    std::uint32_t words[4][kRows * kLanes];
    for (std::size_t row = 0; row < kRows; ++row) {
      std::uint64_t key = keys[row];
      for (auto& state : words) {
        seed(state + row * kLanes, key);
      }
    }
    std::memcpy(&a_, words[0], sizeof a_);
    std::memcpy(&b_, words[1], sizeof b_);
    std::memcpy(&c_, words[2], sizeof c_);
    std::memcpy(&d_, words[3], sizeof d_);
    d_ |= 1U;  // a generator's state may not be all zero
  }

  EPSIM_INLINE void next(Float& out) {
    const Word x = a_ + d_;
    advance();
    const Word y = a_ + d_;
    advance();
    // Two 16-bit sums of four bytes each, then one; nothing carries across, as each stays below 2^11.
    const Word pairs = (x & kLowBytes) + ((x >> 8) & kLowBytes) + (y & kLowBytes) + ((y >> 8) & kLowBytes);
    const Word sum = (pairs & 0xffffU) + (pairs >> 16);
    out = __builtin_convertvector(reinterpret_cast<const Int&>(sum), Float) - kByteMean;
  }
  // Even in [0, 1), in steps of 2^-24.
  EPSIM_INLINE void uniform(Float& out) {
    const Word high = (a_ + d_) >> 8;
    advance();
    out = __builtin_convertvector(reinterpret_cast<const Int&>(high), Float) * 0x1p-24F;
  }

 private:
  using Word = typename RowLanes<kRows>::Word;
  using Int = typename RowLanes<kRows>::Int;
  static constexpr std::uint32_t kLowBytes = 0x00ff00ffU;
  static constexpr float kByteMean = 8 * 127.5F;

  EPSIM_INLINE void advance() {
    const Word t = b_ << 9;
    c_ ^= a_;
    d_ ^= b_;
    b_ ^= c_;
    a_ ^= d_;
    c_ ^= t;
    d_ = (d_ << 11) | (d_ >> 21);
  }
  // The next four words of SplitMix64, which moves `key` on.
  EPSIM_INLINE static void seed(std::uint32_t* words, std::uint64_t& key) {
    for (std::size_t i = 0; i < kLanes; i += 2) {
      const std::uint64_t x = Fingerprint::mix(key += 0x9e3779b97f4a7c15ULL);
      words[i] = static_cast<std::uint32_t>(x);
      words[i + 1] = static_cast<std::uint32_t>(x >> 32);
    }
  }
  Word a_, b_, c_, d_;
};

// A row alone.
class ByteGaussian {
 public:
  // A uniform byte has mean 127.5 and variance (256^2 - 1) / 12 = 5461.25.
  static constexpr double kDeviation = 209.02153;  // sqrt(8 * 5461.25)

  explicit ByteGaussian(std::uint64_t key) : row_({key}) {}
  FloatX4 next() {
    FloatX4 out;
    row_.next(out);
    return out;
  }

 private:
  ByteGaussians<1> row_;
};

}  // namespace epsim
