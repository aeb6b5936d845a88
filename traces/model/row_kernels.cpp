#include "traces/model/row_kernels.h"

#include <algorithm>

#include "sim/core/vector_exp.h"
#include "traces/routing/byte_gaussian.h"

namespace epsim {

namespace {

#if defined(__x86_64__)
#define EPSIM_WIDE __attribute__((target("avx2")))  // without fma: each operation rounds as in plain SSE
bool has_wide() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#endif

// Eight values as the compiler sees fit: one register with AVX2, two without.
using FloatX8 = float __attribute__((vector_size(32)));
using IntX8 = std::int32_t __attribute__((vector_size(32)));
#define EPSIM_INLINE inline __attribute__((always_inline))

EPSIM_INLINE void load(FloatX8& x, const float* from) { std::memcpy(&x, from, sizeof x); }
EPSIM_INLINE void store(float* to, const FloatX8& x) { std::memcpy(to, &x, sizeof x); }
// Adds the lower four values, then the upper ones, as a loop over blocks of four would.
EPSIM_INLINE void add_halves(FloatX4& sums, const FloatX8& x) {
  sums += FloatX4{x[0], x[1], x[2], x[3]};
  sums += FloatX4{x[4], x[5], x[6], x[7]};
}

EPSIM_INLINE float roots_kernel(const RowTables& tables, std::span<const float> z, float variance, float* out) {
  const float* loading = tables.loadings;
  FloatX4 sums{};
  for (std::size_t at = 0; at < tables.experts; at += kWide) {
    FloatX8 x, step;
    load(x, tables.log_share + at);
    load(step, tables.slope + at);
    x += step * variance;
    for (const float along : z) {
      load(step, loading);
      x += step * along;
      loading += kWide;
    }
    x *= 0.5F;
    exp_lanes<FloatX8, IntX8>(x);
    add_halves(sums, x * x);
    store(out + at, x);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

EPSIM_INLINE RowSum noise_kernel(float scale, float noise, std::uint64_t key, std::span<float> row) {
  ByteGaussian gaussian(key);
  const FloatX8 one = FloatX8{} + 1.0F;
  FloatX4 sums{};
  FloatX8 highest{};
  for (std::size_t at = 0; at < row.size(); at += kWide) {
    FloatX8 root;
    load(root, row.data() + at);
    FloatX8 p = root * root * scale;
    p = p < one ? p : one;
    const FloatX8 p2 = p * p;
    const FloatX4 low = gaussian.next(), high = gaussian.next();
    const FloatX8 drawn = {low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]};
    // 1 - p/2 - p^2/8 - 3/8 p^4 is within 4 % of sqrt(1 - p) up to 0.7, and right at both ends.
    FloatX8 x = p + root * noise * (1.0F - 0.5F * p - 0.125F * p2 - 0.375F * p2 * p2) * drawn;
    const FloatX8 trace = p * 1e-3F;  // not 0, so that a row of few tokens can always be filled up to top-k
    x = x > trace ? x : trace;
    add_halves(sums, x);
    highest = x > highest ? x : highest;
    store(row.data() + at, x);
  }
  RowSum out{.total = (sums[0] + sums[1]) + (sums[2] + sums[3])};
  for (std::size_t i = 0; i < kWide; ++i) {
    out.highest = std::max(out.highest, highest[i]);
  }
  return out;
}

#ifdef EPSIM_WIDE
EPSIM_WIDE float roots_wide(const RowTables& tables, std::span<const float> z, float variance, float* out) {
  return roots_kernel(tables, z, variance, out);
}
EPSIM_WIDE RowSum noise_wide(float scale, float noise, std::uint64_t key, std::span<float> row) {
  return noise_kernel(scale, noise, key, row);
}
#endif

}  // namespace

float row_roots_plain(const RowTables& tables, std::span<const float> z, float variance, float* out) {
  return roots_kernel(tables, z, variance, out);
}

RowSum add_row_noise_plain(float scale, float noise, std::uint64_t key, std::span<float> row) {
  return noise_kernel(scale, noise, key, row);
}

float row_roots(const RowTables& tables, std::span<const float> z, float variance, float* out) {
#ifdef EPSIM_WIDE
  if (has_wide()) {
    return roots_wide(tables, z, variance, out);
  }
#endif
  return roots_kernel(tables, z, variance, out);
}

RowSum add_row_noise(float scale, float noise, std::uint64_t key, std::span<float> row) {
#ifdef EPSIM_WIDE
  if (has_wide()) {
    return noise_wide(scale, noise, key, row);
  }
#endif
  return noise_kernel(scale, noise, key, row);
}

}  // namespace epsim
