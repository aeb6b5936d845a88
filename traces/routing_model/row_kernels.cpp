#include "traces/routing_model/row_kernels.h"

#include <algorithm>

#include "sim/core/simd.h"
#include "sim/core/vector_exp.h"
#include "traces/routing_model/byte_gaussian.h"

namespace epsim {

namespace {

template <std::size_t kRows>
using Float = typename RowLanes<kRows>::Float;

// Eight experts at a time; sums are of four, four after four.
EPSIM_SIMD float roots_kernel(const RowTables& tables, std::span<const float> z, float variance, float* out) {
  constexpr std::size_t kStep = 2 * kLanes;
  static_assert(kWide % kStep == 0);
  FloatX4 sums{};
  for (std::size_t at = 0; at < tables.experts; at += kStep) {
    // [expert / kWide][factor][kWide]
    const float* loading = tables.loadings + (at / kWide) * kWide * z.size() + at % kWide;
    Float<2> x, step;
    std::memcpy(&x, tables.log_share + at, sizeof x);
    std::memcpy(&step, tables.slope + at, sizeof step);
    x += step * variance;
    for (const float along : z) {
      std::memcpy(&step, loading, sizeof step);
      x += step * along;
      loading += kWide;
    }
    x *= 0.5F;
    exp_lanes<Float<2>, RowLanes<2>::Int>(x);
    const Float<2> squares = x * x;
    sums += __builtin_shufflevector(squares, squares, 0, 1, 2, 3);
    sums += __builtin_shufflevector(squares, squares, 4, 5, 6, 7);
    std::memcpy(out + at, &x, sizeof x);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <std::size_t kRows>
EPSIM_INLINE void noise_kernel(NoisyRow* rows, std::size_t experts) {
  std::uint64_t keys[kRows];
  float* at_row[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    keys[r] = rows[r].key;
    at_row[r] = rows[r].values;
  }
  ByteGaussians<kRows> gaussian(keys);
  Float<kRows> scale, noise, sums{}, highest{}, root, drawn;
  spread_rows<kRows>(scale, [&](std::size_t r) { return rows[r].scale; });
  spread_rows<kRows>(noise, [&](std::size_t r) { return rows[r].noise; });
  const Float<kRows> one = Float<kRows>{} + 1.0F;
  for (std::size_t at = 0; at < experts; at += kLanes) {
    load_rows(root, at_row, at);
    Float<kRows> p = root * root * scale;
    p = p < one ? p : one;
    const Float<kRows> p2 = p * p;
    gaussian.next(drawn);
    // 1 - p/2 - p^2/8 - 3/8 p^4 is within 4 % of sqrt(1 - p) up to 0.7, and right at both ends.
    Float<kRows> x = p + root * noise * (1.0F - 0.5F * p - 0.125F * p2 - 0.375F * p2 * p2) * drawn;
    const Float<kRows> trace = p * 1e-3F;  // not 0, so that a row of few tokens can always be filled up to top-k
    x = x > trace ? x : trace;
    sums += x;
    highest = x > highest ? x : highest;
    store_rows(x, at_row, at);
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    const std::size_t i = r * kLanes;
    rows[r].total = (sums[i] + sums[i + 1]) + (sums[i + 2] + sums[i + 3]);
    rows[r].highest = std::max({highest[i], highest[i + 1], highest[i + 2], highest[i + 3]});
  }
}

// Two rows at a time, and one that is left.
EPSIM_SIMD void noise_of_all(std::span<NoisyRow> rows, std::size_t experts) {
  std::size_t r = 0;
  for (; r + 2 <= rows.size(); r += 2) {
    noise_kernel<2>(rows.data() + r, experts);
  }
  for (; r < rows.size(); ++r) {
    noise_kernel<1>(rows.data() + r, experts);
  }
}

}  // namespace

float row_roots(const RowTables& tables, std::span<const float> z, float variance, float* out) {
  return roots_kernel(tables, z, variance, out);
}

void add_row_noise(std::span<NoisyRow> rows, std::size_t experts) { noise_of_all(rows, experts); }

}  // namespace epsim
