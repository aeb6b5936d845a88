#include "sim/core/sum_and_max.h"

#include <algorithm>
#include <cstring>

#include "sim/core/simd.h"

namespace epsim {
namespace {

using Lanes = double __attribute__((vector_size(32)));
constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(double);

EPSIM_INLINE void take(const double* values, Lanes& sum, Lanes& max) {
  Lanes x;
  std::memcpy(&x, values, sizeof x);
  sum += x;
  max = x > max ? x : max;
}

EPSIM_SIMD SumAndMax over_lanes(const double* values, std::size_t n) {
  Lanes sum[2] = {}, max[2] = {};
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    take(values + i, sum[0], max[0]);
    take(values + i + kLanes, sum[1], max[1]);
  }
  SumAndMax out;
  for (std::size_t k = 0; k < 2 * kLanes; ++k) {
    out.sum += sum[k / kLanes][k % kLanes];
    out.max = std::max(out.max, max[k / kLanes][k % kLanes]);
  }
  for (; i < n; ++i) {
    out.sum += values[i];
    out.max = std::max(out.max, values[i]);
  }
  return out;
}

}  // namespace

SumAndMax sum_and_max(std::span<const double> values) { return over_lanes(values.data(), values.size()); }

}  // namespace epsim
