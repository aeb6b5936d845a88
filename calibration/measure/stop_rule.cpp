#include "calibration/measure/stop_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/core/check.h"
#include "sim/core/refuse.h"

namespace epsim::measure {

void StopRule::validate() const {
  const auto check = [](bool good, const char* key, const char* problem) { refuse_if(!good, key, problem); };
  check(relative_error > 0 && relative_error < 1, "relative_error", "the wanted relative error is between 0 and 1.");
  check(min_repeats >= 6, "min_repeats", "at least 6 repeats: fewer give no 95 % interval of the median.");
  check(max_repeats >= min_repeats && max_repeats <= 1000, "max_repeats", "from min_repeats to 1000.");
  check(budget.count() > 0, "budget", "a point's time budget is positive.");
  check(warm_up.count() >= 0 && warm_up_launches >= 1, "warm_up", "not negative, with one launch or more.");
  check(batch.count() >= 0 && max_batch >= 1, "batch", "not negative, with one launch or more.");
}

int interval_rank(int samples) {
  // P(the median lies below x_(r)) = P(at most r - 1 of n samples fall below it) = sum of C(n, i) / 2^n over i < r.
  double below = 0, term = std::exp2(-samples);
  int rank = 0;
  for (int i = 0; i < samples / 2; ++i) {
    below += term;
    if (below > 0.025) {
      break;
    }
    rank = i + 1;
    term *= static_cast<double>(samples - i) / (i + 1);
  }
  return rank;
}

Interval median_interval(std::span<const double> samples) {
  EPSIM_CHECK(!samples.empty(), "a median needs a sample");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  const double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  const int rank = interval_rank(static_cast<int>(n));
  if (rank == 0) {
    return {median, std::numeric_limits<double>::infinity()};
  }
  const double low = sorted[static_cast<std::size_t>(rank - 1)], high = sorted[n - static_cast<std::size_t>(rank)];
  return {median, (high - low) / 2 / median};
}

std::optional<Interval> settled(const StopRule& rule, std::span<const double> samples, Seconds spent) {
  const int count = static_cast<int>(samples.size());
  if (count == 0 || count < rule.min_repeats) {
    return std::nullopt;
  }
  const Interval out = median_interval(samples);
  const bool enough =
      out.relative_half_width <= rule.relative_error || count >= rule.max_repeats || spent >= rule.budget;
  return enough ? std::optional(out) : std::nullopt;
}

int batch_size(const StopRule& rule, Seconds one) {
  if (!(one.count() > 0)) {
    return rule.max_batch;
  }
  return std::clamp(static_cast<int>(std::ceil(std::min(rule.batch / one, 1e6))), 1, rule.max_batch);
}

}  // namespace epsim::measure
