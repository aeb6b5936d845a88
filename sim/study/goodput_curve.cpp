#include "sim/study/goodput_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/core/error.h"

namespace epsim {
namespace {

constexpr double kReach = 1000;       // how far from the start a bracket is looked for
constexpr double kDownStep = 1.5;     // between probes below the knee, where the TTFT changes slowly
constexpr double kUpStep = 1.25;      // and above
constexpr double kDownSpan = 2.5;     // rates of the sensitivity: at most this factor below the knee,
constexpr double kUpSpan = 6;         // and above
constexpr double kSteep = 2;          // ratio of the TTFTs at the ends of a bracket from which it is halved
constexpr std::size_t kFewest = 500;  // requests of a probe
constexpr double kReserve = 1.25;     // over those that its number in the system asks for
constexpr std::size_t kMore = 3;      // times the requests of a probe that could not tell
constexpr double kMargin = 0.1;  // a guess inside a bracket keeps this share of its logarithmic width from the ends

bool completes(const LoadPoint& p, const GoodputOptions& options) {
  return options.count_all || p.completed >= options.min_completed * p.measured_offered;
}

// The highest rate up to p's that is a steady state, where `low` is one: what is served at p, where p is not.
double steady_rate(const LoadPoint& p, double low, const GoodputOptions& options) {
  const bool complete = completes(p, options);
  const double served = complete ? p.offered * p.completed / p.measured_offered : p.completed;
  return complete && p.stable ? p.offered : std::clamp(served, low, std::nextafter(p.offered, low));
}

// The last acceptable probe and the first that is not.
struct Bracket {
  const LoadPoint* low = nullptr;
  const LoadPoint* high = nullptr;
};

Bracket bracket_of(const GoodputCurve& curve, const GoodputOptions& options) {
  Bracket out;
  for (const LoadPoint& p : curve.probes) {
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
    if (std::none_of(curve.probes.begin(), curve.probes.end(), [&](const LoadPoint& p) { return p.offered == rate; })) {
      return rate;
    }
  }
  return std::nullopt;
}

// Steps grow with the distance from the start, which was a bad guess then.
double step_from_start(const GoodputCurve& curve, double rate) {
  const double gone = std::max(rate / curve.start, curve.start / rate);
  return std::clamp(gone, curve.start_step, std::max(curve.start_step, kUpStep));
}

// Below a rate that fails. What completed there tells the capacity, when that was what failed.
double rate_below(const GoodputCurve& curve, const LoadPoint& failed, const GoodputOptions& options) {
  const double rate = failed.offered / step_from_start(curve, failed.offered);
  const double guess = completes(failed, options) ? rate : options.min_completed * failed.completed;
  if (rate < curve.start / kReach) {
    throw RunFailed(fmt::format(
        "no request rate down to {:.3g}/s is acceptable: the mean TTFT is {:.3g} s there, and {:.3g} s for a "
        "request that is alone. Do requests of the trace arrive at the same instant?",
        failed.offered, failed.ttft_s.mean, curve.idle_ttft_s));
  }
  return std::clamp(guess, rate / 2, rate);
}

double rate_above(const GoodputCurve& curve, const LoadPoint& passed) {
  if (passed.offered > curve.start * kReach) {
    throw RunFailed(
        fmt::format("every request rate up to {:.3g}/s is acceptable: the trace has too few requests to "
                    "load this system.",
                    passed.offered));
  }
  return passed.offered * step_from_start(curve, passed.offered);
}

// Just below or just above where the knee seems to be, whichever is not yet known: with a good guess two probes close
// the bracket. Never near an end, so that each probe narrows it. The middle where a guess would be poor: the TTFT rises
// too steeply.
double rate_inside(const GoodputCurve& curve, const Bracket& bracket, const GoodputOptions& options) {
  const double low = std::log(bracket.low->offered), width = std::log(bracket.high->offered) - low;
  if (bracket.high->ttft_s.mean > kSteep * bracket.low->ttft_s.mean) {
    return std::exp(low + width / 2);
  }
  const double at = std::log(knee_of(curve, options.k, options).rate), half = 0.45 * std::log1p(options.tolerance);
  const double target = at - low > 2 * half ? at - half : at + half;
  return std::exp(std::clamp(target, low + kMargin * width, low + (1 - kMargin) * width));
}

std::optional<double> bracket_rate(const GoodputCurve& curve, const Bracket& bracket, const GoodputOptions& options) {
  if (bracket.low == nullptr) {
    return bracket.high == nullptr ? curve.start : rate_below(curve, *bracket.high, options);
  }
  if (bracket.high == nullptr) {
    return rate_above(curve, *bracket.low);
  }
  return bracket.high->offered > bracket.low->offered * (1 + options.tolerance)
             ? std::optional(rate_inside(curve, bracket, options))
             : std::nullopt;
}

// Rates so that the curve spans every k of the sensitivity, as far as it can.
std::optional<double> sensitivity_rate(const GoodputCurve& curve, const Bracket& bracket,
                                       const GoodputOptions& options) {
  if (options.sensitivity.empty()) {
    return std::nullopt;
  }
  const LoadPoint& lowest = curve.probes.front();
  const double below = lowest.offered / kDownStep;
  if (lowest.ttft_s.mean > options.sensitivity.front() * curve.idle_ttft_s &&
      below * kDownSpan >= bracket.low->offered) {
    return below;
  }
  const LoadPoint& highest = curve.probes.back();
  const double above = highest.offered * kUpStep;
  const bool goes_on = highest.ttft_s.mean < options.sensitivity.back() * curve.idle_ttft_s &&
                       completes(highest, options) && highest.stable;
  return goes_on && above <= bracket.low->offered * kUpSpan ? std::optional(above) : std::nullopt;
}

}  // namespace

void GoodputCurve::add(LoadPoint probe) {
  const auto at = std::upper_bound(probes.begin(), probes.end(), probe,
                                   [](const LoadPoint& a, const LoadPoint& b) { return a.offered < b.offered; });
  probes.insert(at, std::move(probe));
}

bool in_bounds(const LoadPoint& probe, double idle_ttft_s, const GoodputOptions& options) {
  return probe.ttft_s.mean <= options.k * idle_ttft_s && completes(probe, options);
}

bool acceptable(const LoadPoint& probe, double idle_ttft_s, const GoodputOptions& options) {
  return in_bounds(probe, idle_ttft_s, options) && probe.stable;
}

Knee knee_of(const GoodputCurve& curve, double k, const GoodputOptions& options) {
  const double bound = k * curve.idle_ttft_s;
  Knee knee{.k = k, .rate = 0, .ttft_s = curve.idle_ttft_s, .steady = true};
  for (const LoadPoint& p : curve.probes) {
    const double low = knee.rate, rise = std::log(std::max(1.0, p.ttft_s.mean / knee.ttft_s));
    knee.bracket_share = low > 0 ? p.offered / low - 1 : 1;
    knee.interpolated = knee.bracket_share > options.tolerance;
    const double in_time = rise > 0 ? std::log(bound / knee.ttft_s) / rise : 1;  // shares of the way from low to p
    const double steady = (steady_rate(p, low, options) - low) / (p.offered - low);
    if (const double part = std::min(in_time, steady); part < 1) {
      knee.rate += (p.offered - low) * part;
      knee.ttft_s *= std::exp(rise * part);
      knee.limit = in_time <= steady        ? KneeLimit::kTtft
                   : !completes(p, options) ? KneeLimit::kCompleted
                                            : KneeLimit::kUnstable;
      knee.steady = knee.steady && (p.stable || !knee.interpolated);
      return knee;
    }
    knee.rate = p.offered;
    knee.ttft_s *= std::exp(rise);
    knee.steady = p.enough_requests;
  }
  knee.limit = KneeLimit::kBeyond;
  knee.bracket_share = 0;
  knee.interpolated = false;
  return knee;
}

std::size_t requests_for(const GoodputCurve& curve, double rate, std::size_t all, const GoodputOptions& options) {
  if (options.count_all) {
    return all;
  }
  for (const LoadPoint& p : curve.probes) {
    if (p.offered >= rate && acceptable(p, curve.idle_ttft_s, options)) {
      // Steps shorten as they empty, so the number in the system falls faster than the rate: about with its cube.
      const double in_system = p.outstanding * std::pow(rate / p.offered, 3);
      const double wanted = std::ceil(kReserve * options.min_requests_ratio * in_system);
      // For the means, however empty the system is; more for a rate that was asked for than for the search's own.
      const bool asked = std::find(options.rates.begin(), options.rates.end(), rate) != options.rates.end();
      const std::size_t least = asked ? std::max((all + 7) / 8, kFewest) : kFewest;
      return std::min(all, std::max(least, static_cast<std::size_t>(wanted)));
    }
  }
  return all;
}

std::optional<std::size_t> requests_after(const LoadPoint& probe, const GoodputCurve& curve, const TraceSize& trace,
                                          const GoodputOptions& options) {
  const auto taken = static_cast<std::size_t>(probe.requests);
  const bool fits = in_bounds(probe, curve.idle_ttft_s, options);
  const bool good = probe.enough_requests && acceptable(probe, curve.idle_ttft_s, options);
  const bool late = probe.ttft_s.mean > options.k * curve.idle_ttft_s;
  if (taken >= trace.all || good || (taken >= trace.usual && late)) {
    return std::nullopt;
  }
  // In time, it lacks requests, or drifts, which a chance among few does as well. Else it lies below a rate that is
  // acceptable.
  const double needed = fits ? std::ceil(kReserve * options.min_requests_ratio * probe.outstanding) : 0;
  const std::size_t most = taken < trace.usual ? trace.usual : trace.all;
  return std::min(most, std::max(kMore * taken, static_cast<std::size_t>(needed)));
}

std::optional<double> next_rate(const GoodputCurve& curve, const GoodputOptions& options) {
  if (const auto rate = asked_rate(curve, options)) {
    return rate;
  }
  const Bracket bracket = bracket_of(curve, options);
  if (const auto rate = bracket_rate(curve, bracket, options)) {
    return rate;
  }
  return sensitivity_rate(curve, bracket, options);
}

}  // namespace epsim
