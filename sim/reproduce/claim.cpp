#include "sim/reproduce/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "sim/core/check.h"
#include "sim/core/statistics.h"
#include "sim/report/format.h"

namespace epsim {

Verdict ClaimRow::verdict() const {
  if (!std::isfinite(value) || is_no_effect()) {
    return Verdict::kMissed;
  }
  if (value >= low && value <= high) {
    return Verdict::kReproduced;
  }
  const bool same_side = no_effect && (value - *no_effect) * (stated - *no_effect) > 0;
  return same_side ? Verdict::kOrderOnly : Verdict::kMissed;
}

bool ClaimRow::is_no_effect() const {
  return no_effect && value == *no_effect && low < high && (value == low || value == high);
}

std::string ClaimRow::reason() const {
  if (!std::isfinite(value)) {
    return "there is no value";
  }
  if (is_no_effect()) {
    return "no effect at all";
  }
  if (value >= low && value <= high) {
    return "within the tolerance";
  }
  const bool below = value < low;
  std::string out =
      fmt::format("{} {} the tolerance", rounded(below ? low - value : value - high), below ? "below" : "above");
  if (half_width && (below ? value + *half_width >= low : value - *half_width <= high)) {
    out += ", which its interval reaches";
  }
  if (no_effect) {
    out += verdict() == Verdict::kOrderOnly ? ", in the claim's direction" : ", not in the claim's direction";
  }
  return out;
}

ClaimRow named_row(std::string id, std::string what, std::string paper, std::string unit) {
  ClaimRow out;
  out.id = std::move(id);
  out.what = std::move(what);
  out.paper = std::move(paper);
  out.unit = std::move(unit);
  return out;
}

bool all_hold(std::span<const ClaimRow> rows) {
  return std::all_of(rows.begin(), rows.end(),
                     [](const ClaimRow& row) { return !row.must_hold || row.verdict() == Verdict::kReproduced; });
}

RatioSummary summarize_ratios(std::span<const SetupRatio> ratios) {
  EPSIM_CHECK(!ratios.empty(), "a mean needs ratios");
  std::map<std::string, RunningStats> by_setup;
  double unresolved = 0;
  for (const SetupRatio& r : ratios) {
    by_setup[r.setup].add(r.value);
    unresolved += r.resolution * r.resolution / static_cast<double>(ratios.size());
  }
  const std::int64_t seeds = by_setup.begin()->second.count();
  RatioSummary out;
  RunningStats means;
  double variance = 0;
  for (const auto& [setup, stats] : by_setup) {
    EPSIM_CHECK(stats.count() == seeds, "every setup has the same seeds");
    if (!std::isfinite(stats.mean())) {
      constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
      return {kNone, kNone, kNone, setup, setup, std::nullopt, std::nullopt};
    }
    means.add(stats.mean());
    variance += stats.variance() / static_cast<double>(by_setup.size());
    if (out.max_setup.empty() || stats.mean() > out.max) {
      out.max = stats.mean();
      out.max_setup = setup;
    }
    if (out.min_setup.empty() || stats.mean() < out.min) {
      out.min = stats.mean();
      out.min_setup = setup;
    }
  }
  out.mean = means.mean();
  if (seeds > 1) {
    const auto setups = static_cast<double>(by_setup.size());
    const double t = student_t_95(static_cast<int>(by_setup.size()) * static_cast<int>(seeds - 1));
    out.setup_half_width = std::hypot(t * std::sqrt(variance / static_cast<double>(seeds)),
                                      1.96 * std::sqrt(unresolved / static_cast<double>(seeds)));
    out.mean_half_width = *out.setup_half_width / std::sqrt(setups);
  }
  return out;
}

}  // namespace epsim
