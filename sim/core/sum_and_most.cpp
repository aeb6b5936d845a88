#include "sim/core/sum_and_most.h"

#include <algorithm>
#include <cstring>

#include "sim/core/simd.h"

namespace epsim {
namespace {

using Lanes = double __attribute__((vector_size(32)));
constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(double);

EPSIM_INLINE void take(const double* values, Lanes& sum, Lanes& most) {
  Lanes x;
  std::memcpy(&x, values, sizeof x);
  sum += x;
  most = x > most ? x : most;
}

EPSIM_SIMD SumAndMost over_lanes(const double* values, std::size_t n) {
  Lanes sum[2] = {}, most[2] = {};
  std::size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    take(values + i, sum[0], most[0]);
    take(values + i + kLanes, sum[1], most[1]);
  }
  SumAndMost out;
  for (std::size_t k = 0; k < 2 * kLanes; ++k) {
    out.sum += sum[k / kLanes][k % kLanes];
    out.most = std::max(out.most, most[k / kLanes][k % kLanes]);
  }
  for (; i < n; ++i) {
    out.sum += values[i];
    out.most = std::max(out.most, values[i]);
  }
  return out;
}

}  // namespace

SumAndMost sum_and_most(std::span<const double> values) { return over_lanes(values.data(), values.size()); }

}  // namespace epsim
