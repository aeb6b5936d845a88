#include "models/network/miss_probability.h"

#include <array>
#include <cstddef>

#include "sim/core/simd.h"

namespace epsim {
namespace {

constexpr std::size_t kLanes = 8;  // sums that do not wait for each other

EPSIM_SIMD void add_variances(const float* __restrict pi, std::size_t n, double* __restrict lanes) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    for (std::size_t k = 0; k < kLanes; ++k) {
      const auto p = static_cast<double>(pi[i + k]);
      lanes[k] += p * (1.0 - p);
    }
  }
}

}  // namespace

double pair_weight(std::span<const float> pi) {
  std::array<double, kLanes> lanes{};
  const std::size_t whole = pi.size() / kLanes * kLanes;
  add_variances(pi.data(), whole, lanes.data());
  for (std::size_t i = whole; i < pi.size(); ++i) {
    const auto p = static_cast<double>(pi[i]);
    lanes[i - whole] += p * (1.0 - p);
  }
  double variance = 0;
  for (const double lane : lanes) {
    variance += lane;
  }
  return variance > 0 ? 0.5 / variance : 0.0;
}

}  // namespace epsim
