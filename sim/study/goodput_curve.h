// What a set of probes says about a knee, and which rate to probe next. Pure functions of the probes, so that a search
// depends on nothing but its own results.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "sim/study/goodput_result.h"

namespace epsim {

// A search under way: one policy, one seed.
struct GoodputCurve {
  double idle_ttft_s = 0;
  double start = 0;               // requests/s, where the bracket begins
  double start_step = 1.25;       // factor between rates while there is no bracket
  std::vector<LoadPoint> probes;  // by rate

  void add(LoadPoint probe);
};

// Whether TTFT and completed rate are within their bounds.
bool in_bounds(const LoadPoint& probe, double idle_ttft_s, const GoodputOptions& options);
// Whether the rate is acceptable, in bounds and steady: the knee is the largest such rate.
bool acceptable(const LoadPoint& probe, double idle_ttft_s, const GoodputOptions& options);

// The knee at `k`. Rates below the first that fails count as acceptable. Between the last acceptable probe (or rate 0,
// where the TTFT is that of an idle instance) and the first whose TTFT is too long, the logarithm of the TTFT is taken
// as linear in the rate; a TTFT below one at a lower rate counts as equal to it, so that the knee never falls with k.
Knee knee_of(const GoodputCurve& curve, double k, const GoodputOptions& options);

// The next rate to probe; none when the search is complete. In order: the rates asked for; a bracket of the knee, in
// geometric steps; its division, where interpolation puts the knee; rates below and above for the sensitivity. Throws
// RunFailed when no rate down to a thousandth of the start is acceptable, or when even a thousandfold is.
std::optional<double> next_rate(const GoodputCurve& curve, const GoodputOptions& options);

// How many of the trace's `all` requests a probe at `rate` takes first: fewer below a rate that is acceptable, where
// fewer are in the system.
std::size_t requests_for(const GoodputCurve& curve, double rate, std::size_t all, const GoodputOptions& options);
// And when that was too few to tell, or said what a rate above contradicts: as many as its number in the system asks
// for, or several times as many; none when the probe stands. A TTFT that is too long with the `usual` requests stands.
struct TraceSize {
  std::size_t usual = 0, all = 0;
};
std::optional<std::size_t> requests_after(const LoadPoint& probe, const GoodputCurve& curve, const TraceSize& trace,
                                          const GoodputOptions& options);

}  // namespace epsim
