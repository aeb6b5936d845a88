#include "sim/study/slo_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/core/check.h"
#include "sim/core/error.h"

namespace epsim {
namespace {

constexpr double kReach = 1000;   // how far from the start a bracket is looked for
constexpr double kServed = 0.95;  // completions of what was offered below which a run tells the most that is served
constexpr double kServedMargin = 1.01;  // over what is served, from which a rate is no steady state
constexpr double kMostStep = 4;         // up, between rates without a bracket
constexpr double kMostDownStep = 4;     // and down
constexpr std::size_t kFewest = 400;    // 3 / 400 < 1 %: a 99 % share can be told
constexpr std::size_t kAlone = 100;     // requests that tell what requests alone miss
constexpr double kReserve = 1.25;       // over the requests that a number in the system asks for
constexpr double kSteep = 1.0;          // excess between the ends of a bracket from which it is halved
constexpr double kMargin = 0.1;   // a guess inside a bracket keeps this share of its logarithmic width from the ends
constexpr double kSlopeSpan = 4;  // tolerances around the bracket whose probes tell the slope of the excess
constexpr double kAccuracy = 2;   // tolerances: half width of the interval that a single search is content with

// The highest rate at which the SLO holds and the lowest at which it does not. Consistent when in this order.
struct Bracket {
  const LoadPoint* low = nullptr;
  const LoadPoint* high = nullptr;

  bool contradicts() const { return low != nullptr && high != nullptr && low->offered > high->offered; }
};

Bracket bracket_of(const SloCurve& curve) {
  Bracket out;
  for (const LoadPoint& p : curve.probes) {
    if (p.slo.holds) {
      out.low = &p;
    } else if (out.high == nullptr) {
      out.high = &p;
    }
  }
  return out;
}

std::size_t requests_of(const LoadPoint& p) { return static_cast<std::size_t>(p.requests); }

// Overloaded, or not steady, though every bound is met.
bool overloaded(const LoadPoint& p) { return !p.slo.holds && p.slo.excess <= 0; }

std::size_t most_of(const SloCurve& curve) { return std::min(curve.most, curve.available); }

// As many requests as the rate just below takes.
std::size_t level_of(const SloCurve& curve, const Bracket& bracket) {
  const std::size_t low = bracket.low != nullptr ? requests_of(*bracket.low) : 0;
  return std::min(curve.available, std::max(curve.usual, low));
}

// The same rate with twice as many requests; none when it has as many as can be had.
std::optional<SloStep> doubled(const SloCurve& curve, const LoadPoint& p) {
  const std::size_t most = std::max(most_of(curve), std::min(curve.usual, curve.available));
  return requests_of(p) < most ? std::optional(SloStep{p.offered, std::min(most, 2 * requests_of(p))}) : std::nullopt;
}

bool falls_behind(const LoadPoint& p) { return p.completed < kServed * p.measured_offered; }

// Where requests are alone, however far above what can be served the start is.
double lowest_rate(const SloCurve& curve) {
  double served = curve.start;
  for (const LoadPoint& p : curve.probes) {
    served = falls_behind(p) && p.completed > 0 ? std::min(served, p.completed) : served;
  }
  return served / kReach;
}

// Below all rates that fail. A latency over its bound by a factor asks for a step of about its square at least, and
// each further rate that fails less than the longest step above for one of a higher power; an overload for what was
// served.
double rate_below(const SloCurve& curve, const LoadPoint& failed) {
  const auto missed = std::count_if(curve.probes.begin(), curve.probes.end(), [&](const LoadPoint& p) {
    return !p.slo.holds && !overloaded(p) && p.offered < 0.999 * kMostDownStep * failed.offered;
  });
  const double step = std::max(curve.step, std::exp(2 * std::max(0.0, failed.slo.excess)));
  const double rate = failed.offered / std::min(std::pow(step, static_cast<double>(missed)), kMostDownStep);
  const double served = 0.9 * failed.completed;
  const double guess = overloaded(failed) || falls_behind(failed) ? served : rate;
  return std::max(lowest_rate(curve), std::min(guess, failed.offered / curve.step));
}

double rate_above(const SloCurve& curve, const LoadPoint& passed) {
  if (passed.offered > curve.start * kReach) {
    throw RunFailed(fmt::format("the SLO holds at every request rate up to {:.3g}/s.", passed.offered));
  }
  return passed.offered * std::clamp(passed.offered / curve.start, curve.step, std::max(curve.step, kMostStep));
}

// Low rates take few requests: fewer are in the system, and steps are as many as ever.
std::size_t requests_below(const SloCurve& curve, double rate, const LoadPoint& failed) {
  const double share = rate / failed.offered;
  const auto wanted = static_cast<std::size_t>(share * static_cast<double>(failed.requests));
  return std::min(curve.available, std::clamp(wanted, std::min(kFewest, curve.usual), curve.usual));
}

double rate_inside(const Bracket& bracket, const GoodputOptions& options) {
  const double low = std::log(bracket.low->offered), width = std::log(bracket.high->offered) - low;
  const double from = bracket.low->slo.excess, to = bracket.high->slo.excess;
  if (overloaded(*bracket.high) || to - from > kSteep || to <= from) {
    return std::exp(low + width / 2);
  }
  const double at = low - from / (to - from) * width, half = 0.45 * std::log1p(options.tolerance);
  const double target = at - low > 2 * half ? at - half : at + half;
  // A bracket of less than twice the tolerance is narrow enough after this probe, however it ends.
  const double enough = 0.98 * std::log1p(options.tolerance);
  const double margin = width < 2 * enough ? std::max(kMargin * width, width - enough) : kMargin * width;
  return std::exp(std::clamp(target, low + margin, low + width - margin));
}

// The half width of the rate's interval, relative: that of the excess over the excess's slope against the logarithm of
// the rate. Infinite where the probes show no slope.
double uncertainty(const SloCurve& curve, const Bracket& bracket, const GoodputOptions& options) {
  EPSIM_CHECK(bracket.low != nullptr && bracket.high != nullptr, "a bracket has two ends");
  const double span = 1 + kSlopeSpan * options.tolerance;
  const LoadPoint *a = bracket.low, *b = bracket.high;
  for (const LoadPoint& p : curve.probes) {
    const bool near = p.offered >= bracket.low->offered / span && p.offered <= bracket.high->offered * span;
    if (near && !overloaded(p)) {
      a = p.offered < a->offered ? &p : a;
      b = p.offered > b->offered ? &p : b;
    }
  }
  const double slope = (b->slo.excess - a->slo.excess) / std::log(b->offered / a->offered);
  const double half = std::max(bracket.low->slo.excess_half_width, bracket.high->slo.excess_half_width);
  return slope > 0 ? half / slope : std::numeric_limits<double>::infinity();
}

// A run that meets every bound may look unsteady by chance: asked again twice, with twice as many requests each time.
std::optional<SloStep> asked_again(const SloCurve& curve, const Bracket& bracket) {
  const bool often = requests_of(*bracket.high) >= 4 * level_of(curve, bracket);
  return often ? std::nullopt : doubled(curve, *bracket.high);
}

// One that keeps up is, before the search turns away from its rate.
std::optional<SloStep> seems_unsteady(const SloCurve& curve, const Bracket& bracket) {
  const bool seems = overloaded(*bracket.high) && !bracket.high->stable && !falls_behind(*bracket.high);
  return seems ? asked_again(curve, bracket) : std::nullopt;
}

// The ends of a bracket that is narrow enough, asked again until they stand.
std::optional<SloStep> confirmation(const SloCurve& curve, const Bracket& bracket, const GoodputOptions& options) {
  const std::size_t least = level_of(curve, bracket);
  for (const LoadPoint* end : {bracket.high, bracket.low}) {
    if (requests_of(*end) < least) {
      return SloStep{end->offered, least};
    }
  }
  if (overloaded(*bracket.high)) {
    return asked_again(curve, bracket);
  }
  if ((bracket.low->slo.decided && bracket.high->slo.decided) ||
      uncertainty(curve, bracket, options) <= kAccuracy * options.tolerance) {
    return std::nullopt;
  }
  const bool low_first = bracket.low->requests <= bracket.high->requests;
  const auto first = doubled(curve, low_first ? *bracket.low : *bracket.high);
  return first ? first : doubled(curve, low_first ? *bracket.high : *bracket.low);
}

// The probe at the highest rate at which the SLO holds below every rate at which it does not.
const LoadPoint* uncontradicted(const SloCurve& curve) {
  const LoadPoint* out = nullptr;
  for (const LoadPoint& p : curve.probes) {
    if (!p.slo.holds) {
      break;
    }
    out = &p;
  }
  return out;
}

// A guess: latencies fall less and less with the rate, so what is left to gain is at most the last gain. If requests
// alone meet the SLO after all, the search goes on above.
bool late_alone(const SloCurve& curve, const LoadPoint& failed) {
  const auto above = std::find_if(curve.probes.begin(), curve.probes.end(), [&](const LoadPoint& p) {
    return p.offered >= 0.999 * kMostDownStep * failed.offered;
  });
  return above != curve.probes.end() && above->stable && failed.stable && failed.slo.decided &&
         above->slo.excess - failed.slo.excess < failed.slo.excess;
}

std::optional<SloStep> without_low(const SloCurve& curve, const LoadPoint* failed) {
  if (failed == nullptr) {
    return SloStep{curve.start, std::min(curve.usual, curve.available)};
  }
  const double lowest = lowest_rate(curve);
  if (failed->offered > lowest * 1.001) {
    if (late_alone(curve, *failed)) {
      return SloStep{lowest, std::min(curve.available, kAlone)};
    }
    const double rate = rate_below(curve, *failed);
    return SloStep{rate, requests_below(curve, rate, *failed)};
  }
  // Requests are alone here: the SLO never holds, unless by chance.
  return failed->slo.decided || requests_of(*failed) >= 2 * kFewest ? std::nullopt : doubled(curve, *failed);
}

}  // namespace

// Of the longest run that falls behind; of several, the one at the lowest rate. Infinite without one.
double SloCurve::served() const {
  // A short run may fall behind by a wave of its queue: fewer requests than are in the system where it keeps up.
  double wave = 0;
  for (const LoadPoint& p : probes) {
    wave = p.stable && !falls_behind(p) ? std::max(wave, p.outstanding) : wave;
  }
  const auto backlog = [wave](const LoadPoint& p) {
    const double behind = (1 - p.completed / p.measured_offered) * static_cast<double>(p.measured_requests);
    return falls_behind(p) && behind > wave;
  };
  const LoadPoint* longest = nullptr;
  for (const LoadPoint& p : probes) {
    if (backlog(p) && p.completed > 0 && (longest == nullptr || p.requests > longest->requests)) {
      longest = &p;
    }
  }
  return longest != nullptr ? longest->completed : std::numeric_limits<double>::infinity();
}

void SloCurve::add(LoadPoint probe) {
  const auto at = std::lower_bound(probes.begin(), probes.end(), probe,
                                   [](const LoadPoint& a, const LoadPoint& b) { return a.offered < b.offered; });
  if (at != probes.end() && at->offered == probe.offered) {
    *at = std::move(probe);
  } else {
    probes.insert(at, std::move(probe));
  }
  // A backlog that grows slowly may look steady, and meet a loose bound for as long as a run lasts.
  for (LoadPoint& p : probes) {
    p.slo.holds = p.slo.holds && p.offered <= kServedMargin * served();
  }
}

std::size_t requests_needed(const LoadPoint& probe, const GoodputOptions& options) {
  return static_cast<std::size_t>(std::ceil(kReserve * options.min_requests_ratio * probe.outstanding));
}

std::optional<SloStep> next_slo_step(const SloCurve& curve, const GoodputOptions& options) {
  const Bracket bracket = bracket_of(curve);
  for (const LoadPoint& p : curve.probes) {
    // What holds with too few requests for the number in the system may not once it has filled.
    if (p.slo.holds && !p.enough_requests && requests_of(p) < curve.available) {
      const std::size_t wanted = std::max(requests_needed(p, options), requests_of(p) + requests_of(p) / 4 + 1);
      return SloStep{p.offered, std::min(curve.available, wanted)};
    }
  }
  for (const double rate : options.rates) {
    if (std::none_of(curve.probes.begin(), curve.probes.end(), [&](const LoadPoint& p) { return p.offered == rate; })) {
      return SloStep{rate, std::min(curve.usual, curve.available)};
    }
  }
  if (bracket.low == nullptr) {
    return without_low(curve, bracket.high);
  }
  if (bracket.contradicts()) {
    const bool low_first = bracket.low->requests < bracket.high->requests;
    const auto first = doubled(curve, low_first ? *bracket.low : *bracket.high);
    const auto asked = first ? first : doubled(curve, low_first ? *bracket.high : *bracket.low);
    // Both stand: the rate that counts lies below the one that fails.
    return asked || uncontradicted(curve) != nullptr ? asked : without_low(curve, bracket.high);
  }
  if (bracket.high == nullptr) {
    return SloStep{rate_above(curve, *bracket.low), level_of(curve, bracket)};
  }
  if (const auto again = seems_unsteady(curve, bracket)) {
    return again;
  }
  if (bracket.high->offered > bracket.low->offered * (1 + options.tolerance)) {
    return SloStep{rate_inside(bracket, options), level_of(curve, bracket)};
  }
  return confirmation(curve, bracket, options);
}

const LoadPoint* best_for_slo(const SloCurve& curve) {
  if (const LoadPoint* const below = uncontradicted(curve)) {
    return below;
  }
  const auto lowest =
      std::find_if(curve.probes.begin(), curve.probes.end(), [](const LoadPoint& p) { return p.slo.holds; });
  return lowest != curve.probes.end() ? &*lowest : nullptr;
}

SloFinding slo_finding(const SloCurve& curve, const GoodputOptions& options) {
  const Bracket bracket = bracket_of(curve);
  EPSIM_CHECK(bracket.high != nullptr, "a search ends above what holds");
  const LoadPoint& high = *bracket.high;
  SloFinding out;
  out.limit = overloaded(high) ? "overload" : name_of(options.slo.terms[static_cast<std::size_t>(high.slo.limit)]);
  const LoadPoint* low = best_for_slo(curve);
  out.holds = low != nullptr;
  if (bracket.contradicts()) {
    out.rate = low->offered;
    out.low = std::min(low->offered, high.offered);
    out.high = bracket.low->offered;
    return out;
  }
  if (!out.holds) {
    return out;
  }
  const double from = low->slo.excess, to = high.slo.excess;
  const double share = overloaded(high) || to <= from ? 0 : -from / (to - from);
  out.rate = low->offered * std::pow(high.offered / low->offered, share);
  const double chance = overloaded(high) ? 0 : uncertainty(curve, bracket, options);
  out.low = std::min(low->offered, out.rate / (1 + chance));
  out.high = std::max(high.offered, out.rate * (1 + std::min(chance, 1.0)));
  return out;
}

}  // namespace epsim
