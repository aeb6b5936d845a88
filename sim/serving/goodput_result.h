// What a goodput search asks and what it leaves behind: plain values, written by sim/serving, read by sim/report.
//
// The knee is the largest request rate at which the mean TTFT is at most k times that of an idle instance and requests
// complete at 95 % or more of the rate at which they arrive. A goodput by bounds (SLO) counts the requests per second
// that meet every bound.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

// Bounds that a request must meet, all of those given. ITL here is a request's own mean gap between tokens.
struct SloBounds {
  std::optional<Seconds> ttft, itl, e2e;
  bool any() const { return ttft || itl || e2e; }
};

struct GoodputOptions {
  double k = 5;                                               // > 1; one value for all policies
  std::vector<double> sensitivity{1.5, 2, 2.5, 4, 5, 8, 16};  // other values of k to report, ascending
  bool sensitivity_of_first_seed = false;  // the others' is interpolated between the rates that their knees took
  double min_completed = 0.95;             // completed / offered of an acceptable rate
  double tolerance = 0.02;                 // the knee's bracket is narrowed to high / low <= 1 + this
  double warmup_share = 0.1;               // of the requests, by arrival: not counted (and see Probe)
  double drain_share = 0.1;                // likewise, the last ones
  double max_drift = 0.25;         // growth from the first to the second half that a steady state may show by chance
  double min_requests_ratio = 20;  // requests of the trace / mean number in the system, for a rate to be accepted
  SloBounds slo;
  std::vector<double> rates;  // requests/s to probe besides those that the search chooses
};

// The trace served at one rate. Means are over the measured part: what warm-up and drain leave of the requests, and the
// time from the arrival of its first request to that of the first one after it. The warm-up takes twice as many
// requests as are in the system, where that is more than its share, but at most half of all.
struct Probe {
  double offered = 0;           // requests/s of the whole trace
  double measured_offered = 0;  // of the measured part
  double completed = 0;         // requests/s at which the measured ones end; less than offered where their stays grow
  double ttft_mean_s = 0, ttft_p99_s = 0, tpot_mean_s = 0, e2e_mean_s = 0;
  double concurrency = 0;         // mean number of requests in the system
  double slo_requests_per_s = 0;  // measured requests that met every bound / measured time; 0 without bounds
  // Neither TTFT nor the number in the system grew (GoodputOptions::max_drift), and requests stay for less than is
  // measured.
  bool stable = false;
  bool enough_requests = false;  // GoodputOptions::min_requests_ratio
  std::int64_t requests = 0;     // of the trace, from its first on
  std::int64_t measured_requests = 0;
  std::int64_t steps = 0;
  std::string fingerprint;  // of the run
};

// What ends the acceptable rates.
enum class KneeLimit {
  kTtft,       // the mean TTFT passes k times the idle one
  kCompleted,  // requests complete too slowly
  kUnstable,   // the next rate is not a steady state
  kBeyond,     // nothing did at the highest rate probed: the knee is there or above
};

struct Knee {
  double k = 0;
  double rate = 0;    // requests/s
  double ttft_s = 0;  // mean TTFT there
  KneeLimit limit = KneeLimit::kBeyond;
  double bracket_share = 0;   // distance of the two probes around it, relative to the lower: its resolution
  bool interpolated = false;  // the bracket is wider than the search's tolerance
  bool steady = false;        // the probes around it are stable, and the lower one has enough requests
};

// One policy under one seed.
struct GoodputSearch {
  std::string policy;
  int seed_index = 0;
  std::uint64_t seed = 0;
  double idle_ttft_s = 0;  // mean TTFT of requests that are alone in the system
  // requests/s served when the trace's first third (2000 requests or more) arrives at once, warm-up and tail cut
  double saturation = 0;
  Knee knee;         // at GoodputOptions::k
  Probe below_knee;  // the highest rate probed that is acceptable
  std::vector<Knee> sensitivity;
  double slo_best = 0;       // most requests/s that met all bounds at any steady probe; 0 without bounds
  double slo_best_rate = 0;  // the rate at which
  std::vector<Probe> curve;  // by rate
  // Of the plan.
  double kv_lost_share = 0;
  std::int64_t kv_tokens_per_rank = 0;
};

struct GoodputStudy {
  GoodputOptions options;
  std::vector<std::string> policies;    // as they were asked for; ratios are to the first
  std::vector<GoodputSearch> searches;  // [policy][seed]
  int seeds = 1;
  bool same_requests = false;  // all seeds have the same requests (a recorded trace): only the routing differs
};

}  // namespace epsim
