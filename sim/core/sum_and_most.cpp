#include "sim/core/sum_and_most.h"

#include <algorithm>
#include <cstring>

#include "sim/core/widest_vectors.h"

namespace epsim {
namespace {

constexpr std::size_t kLanes = 8;
using Lanes = double __attribute__((vector_size(8 * kLanes)));

EPSIM_WIDEST_VECTORS SumAndMost over_lanes(const double* values, std::size_t n) {
  Lanes sum{}, most{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Lanes x;
    std::memcpy(&x, values + i, sizeof x);
    sum += x;
    most = x > most ? x : most;
  }
  SumAndMost out;
  for (std::size_t k = 0; k < kLanes; ++k) {
    out.sum += sum[k];
    out.most = std::max(out.most, most[k]);
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
