// What a set of probes says about the highest rate at which an SLO holds, and which rate to probe next, with how many
// requests. Pure functions of the probes, so that a search depends on nothing but its own results.
//
// The search brackets the rate, divides the bracket to the tolerance, and then asks its ends again with more and more
// requests until their verdicts stand outside their intervals, or the interval of the rate is within the tolerance. A
// verdict that turns over opens the bracket again; verdicts that contradict each other (the SLO holds above a rate at
// which it does not) are asked again likewise.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/study/goodput_result.h"

namespace epsim {

struct SloCurve {
  double start = 0;                     // requests/s, where the bracket begins
  double step = 1.5;                    // factor between rates while there is no bracket
  std::size_t usual = 0;                // requests of a probe of which nothing else is known
  std::size_t available = 0;            // requests that can be had
  std::size_t most = kMostSloRequests;  // GoodputOptions::most_requests
  std::vector<LoadPoint> probes;        // by rate, one each

  // Takes the place of an earlier probe at its rate. Where a run falls behind, the SLO holds at no rate above what it
  // serves.
  void add(LoadPoint probe);
  double served() const;  // requests/s by such a run; infinite without one
};

struct SloStep {
  double rate = 0;
  std::size_t requests = 0;  // of the trace, from its first on
};

// None when the search is complete. Throws RunFailed when the SLO holds even at a thousand times the start.
std::optional<SloStep> next_slo_step(const SloCurve& curve, const GoodputOptions& options);

// Of a complete search. Inside the last bracket the excess (SloScore) is taken as linear in the logarithm of the rate.
// Where the search ended with verdicts that contradict each other, the rate is that of best_for_slo(), and the interval
// spans them.
SloFinding slo_finding(const SloCurve& curve, const GoodputOptions& options);

// The probe at the highest rate at which the SLO holds that none contradicts; where every one that holds is contradicted
// by a lower rate, the lowest of them. Null when it never does.
const LoadPoint* best_for_slo(const SloCurve& curve);

// Requests that a rate needs to be told steady, with a reserve.
std::size_t requests_needed(const LoadPoint& probe, const GoodputOptions& options);

}  // namespace epsim
