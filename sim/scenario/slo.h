// A service-level objective (SLO): bounds on latencies that a request rate must keep.
//
//   ttft.p99<2s, tpot.p99<50ms, e2e.mean<30s    a statistic over the measured requests
//   ttft<2s, attainment>=0.95                   a bound for each request, and the share of requests that must meet all
//                                               such bounds (0.99 unless given)
//
// ttft: arrival to first token. tpot: a request's mean gap between tokens, (last - first token) / (output tokens - 1).
// e2e: arrival to last token. Statistics: mean, p50, p90, p95, p99. `=` may stand for `<` and `>=`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

enum class LatencyMetric { kTtft, kTpot, kE2e };
enum class LatencyStat { kEach, kMean, kP50, kP90, kP95, kP99 };  // kEach: every request for itself

struct SloTerm {
  LatencyMetric metric = LatencyMetric::kTtft;
  LatencyStat stat = LatencyStat::kEach;
  Seconds bound{};

  // Of requests, that may exceed the bound; a mean has none, and a kEach takes Slo::attainment's.
  double allowed_share() const;
};

struct Slo {
  std::vector<SloTerm> terms;
  double attainment = 0.99;  // share of requests that must meet all kEach terms

  bool any() const { return !terms.empty(); }
  bool per_request() const;  // has a kEach term
};

std::string_view name_of(LatencyMetric metric);
std::string_view name_of(LatencyStat stat);  // "each", "mean", "p50", ...
std::string name_of(const SloTerm& term);    // "ttft.p99<2s"
std::string name_of(const Slo& slo);         // all terms, with the attainment where it counts

// Throws InputError, naming the key `slo`.
Slo parse_slo(const std::string& text);

}  // namespace epsim
