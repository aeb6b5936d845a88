#include "sim/report/estimate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

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

std::vector<double> differences(std::span<const double> a, std::span<const double> b) {
  std::vector<double> out;
  std::ranges::transform(a, b, std::back_inserter(out), std::minus{});
  return out;
}

std::vector<double> ratios(std::span<const double> a, std::span<const double> b) {
  std::vector<double> out;
  std::ranges::transform(a, b, std::back_inserter(out), ratio);
  return out;
}

nlohmann::ordered_json json_of(const Estimate& e) { return {{"mean", e.mean}, {"half_width", e.half_width}}; }

}  // namespace epsim
