// Vectors of floats for the inner loops that draw loads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sim/core/simd.h"

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

// Rows beside each other in one vector, four lanes each, and operations on all of them. With kRows 2 a vector fills an
// AVX2 register; without those instructions the compiler takes two.
template <std::size_t kRows>
struct RowLanes;
template <>
struct RowLanes<1> {
  using Float = FloatX4;
  using Word = WordX4;
  using Int = IntX4;
};
template <>
struct RowLanes<2> {
  using Float = float __attribute__((vector_size(32)));
  using Word = std::uint32_t __attribute__((vector_size(32)));
  using Int = std::int32_t __attribute__((vector_size(32)));
};

// Four values from place `at` of each row.
EPSIM_INLINE void load_rows(RowLanes<1>::Float& x, const float* const* rows, std::size_t at) {
  x = load_x4(rows[0] + at);
}
EPSIM_INLINE void load_rows(RowLanes<2>::Float& x, const float* const* rows, std::size_t at) {
  x = __builtin_shufflevector(load_x4(rows[0] + at), load_x4(rows[1] + at), 0, 1, 2, 3, 4, 5, 6, 7);
}
EPSIM_INLINE void store_rows(const RowLanes<1>::Float& x, float* const* rows, std::size_t at) {
  store_x4(rows[0] + at, x);
}
EPSIM_INLINE void store_rows(const RowLanes<2>::Float& x, float* const* rows, std::size_t at) {
  store_x4(rows[0] + at, __builtin_shufflevector(x, x, 0, 1, 2, 3));
  store_x4(rows[1] + at, __builtin_shufflevector(x, x, 4, 5, 6, 7));
}
// Each row's own value in all of its lanes.
template <std::size_t kRows, class Value>
EPSIM_INLINE void spread_rows(typename RowLanes<kRows>::Float& x, Value value) {
  for (std::size_t i = 0; i < kLanes * kRows; ++i) {
    x[i] = value(i / kLanes);
  }
}

}  // namespace epsim
