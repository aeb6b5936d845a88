#include "sim/report/estimate.h"

#include <cmath>

#include "sim/core/statistics.h"

namespace epsim {

Estimate estimate(std::span<const double> by_seed) {
  RunningStats stats;
  for (const double value : by_seed) {
    stats.add(value);
  }
  const auto n = static_cast<double>(by_seed.size());
  if (by_seed.size() < 2) {
    return {by_seed.empty() ? kUndefined : stats.mean(), kUndefined};
  }
  return {stats.mean(), student_t_95(static_cast<int>(by_seed.size()) - 1) * std::sqrt(stats.variance() / n)};
}

Estimate searched_estimate(std::span<const double> by_seed, double bracket, int rates) {
  Estimate out = estimate(by_seed);
  const auto seeds = static_cast<double>(by_seed.size());
  out.half_width = std::hypot(out.half_width, 1.96 * bracket * out.mean * std::sqrt(rates / 12.0 / seeds));
  return out;
}

}  // namespace epsim
