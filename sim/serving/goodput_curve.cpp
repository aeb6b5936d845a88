#include "sim/serving/goodput_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/core/error.h"

namespace epsim {
namespace {

constexpr double kReach = 1000;        // how far from the start a bracket is looked for
constexpr double kWideStep = 1.25;     // between the probes of the sensitivity
constexpr int kSensitivityProbes = 6;  // at most, on either side of the knee

bool completes(const Probe& p, const GoodputOptions& options) {
  return p.completed >= options.min_completed * p.measured_offered;
}

// The last acceptable probe and the first that is not.
struct Bracket {
  const Probe* low = nullptr;
  const Probe* high = nullptr;
};

Bracket bracket_of(const GoodputCurve& curve, const GoodputOptions& options) {
  Bracket out;
  for (const Probe& p : curve.probes) {
    if (!acceptable(p, curve.idle_ttft_s, options)) {
      out.high = &p;
      break;
    }
    out.low = &p;
  }
  return out;
}

std::optional<double> asked_rate(const GoodputCurve& curve, const GoodputOptions& options) {
  for (const double rate : options.rates) {
    if (std::none_of(curve.probes.begin(), curve.probes.end(), [&](const Probe& p) { return p.offered == rate; })) {
      return rate;
    }
  }
  return std::nullopt;
}

std::optional<double> bracket_rate(const GoodputCurve& curve, const Bracket& bracket, double tolerance) {
  const double lowest = curve.start / kReach, highest = curve.start * kReach;
  if (bracket.low == nullptr && bracket.high == nullptr) {
    return curve.start;
  }
  if (bracket.low == nullptr) {
    const double rate = bracket.high->offered / curve.start_step;
    if (rate < lowest) {
      throw RunFailed(fmt::format(
          "no request rate down to {:.3g}/s is acceptable: the mean TTFT is {:.3g} s there, and {:.3g} s for "
          "a request that is alone. Do requests of the trace arrive at the same instant?",
          lowest, bracket.high->ttft_mean_s, curve.idle_ttft_s));
    }
    return rate;
  }
  if (bracket.high == nullptr) {
    const double rate = bracket.low->offered * curve.start_step;
    if (rate > highest) {
      throw RunFailed(
          fmt::format("every request rate up to {:.3g}/s is acceptable: the trace has too few requests to "
                      "load this system.",
                      highest));
    }
    return rate;
  }
  const double width = bracket.high->offered / bracket.low->offered;
  return width > 1 + tolerance ? std::optional(std::sqrt(bracket.low->offered * bracket.high->offered)) : std::nullopt;
}

// Rates so that the curve spans every k of the sensitivity, as far as it can.
std::optional<double> sensitivity_rate(const GoodputCurve& curve, const Bracket& bracket,
                                       const GoodputOptions& options) {
  if (options.sensitivity.empty()) {
    return std::nullopt;
  }
  const double reach = std::pow(kWideStep, kSensitivityProbes);
  const Probe& lowest = curve.probes.front();
  const double below = lowest.offered / kWideStep;
  if (lowest.ttft_mean_s > options.sensitivity.front() * curve.idle_ttft_s && below * reach >= bracket.low->offered) {
    return below;
  }
  const Probe& highest = curve.probes.back();
  const double above = highest.offered * kWideStep;
  const bool goes_on = highest.ttft_mean_s < options.sensitivity.back() * curve.idle_ttft_s &&
                       completes(highest, options) && highest.stable;
  return goes_on && above <= bracket.low->offered * reach ? std::optional(above) : std::nullopt;
}

// Between the best probe for the bounds and its neighbours, until they are within the tolerance.
std::optional<double> bounds_rate(const GoodputCurve& curve, const GoodputOptions& options) {
  const Probe* best = options.slo.any() ? best_for_bounds(curve) : nullptr;
  if (best == nullptr) {
    return std::nullopt;
  }
  const auto between = [&](const Probe& low, const Probe& high) {
    return high.offered > low.offered * (1 + options.tolerance) ? std::optional(std::sqrt(low.offered * high.offered))
                                                                : std::nullopt;
  };
  const Probe* end = curve.probes.data() + curve.probes.size();
  if (best + 1 < end) {
    if (const auto rate = between(*best, best[1])) {
      return rate;
    }
  }
  if (best == curve.probes.data()) {
    // Nothing met the bounds more often than the lowest rate: go on down, as far as a bracket would.
    const double below = best->offered / kWideStep;
    return best->slo_requests_per_s < best->measured_offered && below >= curve.start / kReach ? std::optional(below)
                                                                                              : std::nullopt;
  }
  return between(best[-1], *best);
}

}  // namespace

void GoodputCurve::add(Probe probe) {
  const auto at = std::upper_bound(probes.begin(), probes.end(), probe,
                                   [](const Probe& a, const Probe& b) { return a.offered < b.offered; });
  probes.insert(at, std::move(probe));
}

bool acceptable(const Probe& probe, double idle_ttft_s, const GoodputOptions& options) {
  return probe.ttft_mean_s <= options.k * idle_ttft_s && completes(probe, options) && probe.stable;
}

Knee knee_of(const GoodputCurve& curve, double k, const GoodputOptions& options) {
  const double bound = k * curve.idle_ttft_s;
  Knee knee{.k = k, .rate = 0, .ttft_s = curve.idle_ttft_s, .steady = true};
  for (const Probe& p : curve.probes) {
    const double low = knee.rate, ttft = std::max(p.ttft_mean_s, knee.ttft_s);
    knee.bracket_share = low > 0 ? p.offered / low - 1 : 1;
    knee.interpolated = knee.bracket_share > options.tolerance;
    if (ttft > bound) {
      knee.rate += (p.offered - low) * std::log(bound / knee.ttft_s) / std::log(ttft / knee.ttft_s);
      knee.ttft_s = bound;
      knee.limit = KneeLimit::kTtft;
      knee.steady = knee.steady && (p.stable || !knee.interpolated);
      return knee;
    }
    if (!completes(p, options) || !p.stable) {
      knee.limit = completes(p, options) ? KneeLimit::kUnstable : KneeLimit::kCompleted;
      return knee;
    }
    knee.rate = p.offered;
    knee.ttft_s = ttft;
    knee.steady = p.enough_requests;
  }
  knee.limit = KneeLimit::kBeyond;
  knee.bracket_share = 0;
  knee.interpolated = false;
  return knee;
}

const Probe* best_for_bounds(const GoodputCurve& curve) {
  const Probe* best = nullptr;
  for (const Probe& p : curve.probes) {
    if (p.stable && p.enough_requests && (best == nullptr || p.slo_requests_per_s > best->slo_requests_per_s)) {
      best = &p;
    }
  }
  return best;
}

std::optional<double> next_rate(const GoodputCurve& curve, const GoodputOptions& options) {
  if (const auto rate = asked_rate(curve, options)) {
    return rate;
  }
  const Bracket bracket = bracket_of(curve, options);
  if (const auto rate = bracket_rate(curve, bracket, options.tolerance)) {
    return rate;
  }
  if (const auto rate = sensitivity_rate(curve, bracket, options)) {
    return rate;
  }
  return bounds_rate(curve, options);
}

}  // namespace epsim
