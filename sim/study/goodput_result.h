// What a goodput search asks and what it leaves behind: plain values, written here, read by sim/report.
//
// The knee is the largest request rate at which the mean TTFT is at most k times that of an idle instance and requests
// complete at 95 % or more of the rate at which they arrive. Where an SLO (slo.h) is given, it takes the knee's place:
// the search is for the highest rate at which the SLO holds in a steady state. branches.cpp has what a search says of the
// start of the instance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/statistics.h"
#include "sim/core/units.h"
#include "sim/scenario/slo.h"

namespace epsim {

inline constexpr std::size_t kMostSloRequests = 50'000;

struct GoodputOptions {
  double k = 5;                                               // > 1; one value for all policies
  std::vector<double> sensitivity{1.5, 2, 2.5, 4, 5, 8, 16};  // other values of k to report, ascending
  bool sensitivity_of_first_seed = false;  // the others' is interpolated between the rates that their knees took
  double min_completed = 0.95;             // completed / offered of an acceptable rate
  double tolerance = 0.02;                 // the knee's bracket is narrowed to high / low <= 1 + this
  double warmup_share = 0.1;               // of the requests, by arrival: not counted (and see LoadPoint)
  double drain_share = 0.1;                // likewise, the last ones
  double max_drift = 0.25;         // growth from the first to the second half that a steady state may show by chance
  double min_requests_ratio = 20;  // requests of the trace / mean number in the system, for a rate to be accepted
  // As in a short benchmark run: every request counts, from an empty system to the last answer, and no steady state is
  // asked for. The rate at which requests are completed then holds the tail, and bounds nothing.
  bool count_all = false;
  Slo slo;  // without terms: the search is for the knee
  // Of a rate under an SLO, unless the number in the system asks for more. With fewer a search ends sooner, and the
  // interval of its rate is wider.
  std::size_t most_requests = kMostSloRequests;
  std::vector<double> rates;  // requests/s to probe besides those that the search chooses
  bool branches = false;      // serve rates past the knee after a backlog, too (branches.h)
};

// How a run stands to the SLO. Each of its conditions compares a value with what is allowed: a mean with its bound, a
// share of requests with the share that may exceed the bound. The excess is ln(value / allowed), at most 0 where the
// condition holds.
struct SloTermScore {             // of one of Slo::terms
  double value = 0, allowed = 0;  // seconds of a mean; else the share of requests beyond the bound
  double half_width = 0;  // of `value`'s 95 % interval, from batch means; of n requests of which none is late 3/n
};
struct SloScore {
  double attainment = 0;         // share of measured requests that meet every per-request bound; 0 without any
  double excess = 0;             // of the condition that is furthest off
  double excess_half_width = 0;  // of its 95 % interval, from batch means
  int limit = 0;                 // index into Slo::terms of that condition; of per-request bounds the most missed
  bool holds = false;            // every condition, in a steady state that completes what arrives
  bool decided = false;          // the verdict stands outside the intervals
  std::vector<SloTermScore> terms = {};  // of a point that was measured
};

// The trace served at one rate. Means are over the measured part: what warm-up and drain leave of the requests, and the
// time from the arrival of its first request to that of the first one after it. The warm-up takes twice as many
// requests as are in the system, where that is more than its share, but at most half of all.
struct LoadPoint {
  double offered = 0;             // requests/s of the whole trace
  double measured_offered = 0;    // of the measured part
  double completed = 0;           // requests/s at which the measured ones end; less than offered where their stays grow
  Summary ttft_s, tpot_s, e2e_s;  // TPOT of requests with more than one output token
  double concurrency = 0;         // mean number of requests in the system
  double outstanding = 0;         // with the turns of conversations that are due and wait for the answer before them
  SloScore slo;
  // Neither TTFT nor the number in the system grew (GoodputOptions::max_drift), and requests stay for less than is
  // measured.
  bool stable = false;
  bool enough_requests = false;  // GoodputOptions::min_requests_ratio
  std::int64_t requests = 0;     // of the trace, from its first on
  std::int64_t measured_requests = 0;
  std::int64_t steps = 0;
  std::string fingerprint;   // of the run
  std::int64_t backlog = 0;  // requests that came at once before; those that count came when these were worked off
  double extrapolated = 0;   // share of the steps' time whose price is
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

// What ends the rates at which an SLO holds.
struct SloFinding {
  bool holds = false;        // at some rate; otherwise not even where requests are alone in the system
  double rate = 0;           // requests/s: the highest at which it holds; 0 when it never does
  double low = 0, high = 0;  // an approximate 95 % interval of this search: requests of this seed alone
  std::string limit;         // the term that fails first above ("ttft.p99<2s"), or "overload"
};

// One policy under one seed.
struct GoodputSearch {
  std::string policy;
  int seed_index = 0;
  std::uint64_t seed = 0;
  double idle_ttft_s = 0;  // mean TTFT of requests that are alone in the system
  // requests/s served when the trace's first third (2000 requests or more) arrives at once, warm-up and tail cut
  double saturation = 0;
  Knee knee;       // at GoodputOptions::k
  LoadPoint best;  // the highest rate probed that is acceptable, or at which the SLO holds
  std::vector<Knee> sensitivity;
  SloFinding slo;                       // with an SLO; then there is no knee, no saturation and no idle TTFT
  std::vector<LoadPoint> curve;         // by rate; each of an instance that starts empty
  std::vector<LoadPoint> from_backlog;  // with GoodputOptions::branches: rates of the curve, after a backlog
  // Of the plan.
  double kv_lost_share = 0;
  std::int64_t kv_tokens_per_rank = 0;
};

// Whether a backlog is served so much faster than the knee that rates between may have two answers (branches.h): by more
// than what queueing alone puts between them. In an M/M/1 queue the mean time in the system is k times the service time
// at 1 - 1 / k of its capacity. False without a knee, and where the runs are short ones from an empty system.
bool outruns_knee(const GoodputSearch& search, const GoodputOptions& options);

// The rates, ascending: the highest acceptable one, and where a backlog outruns the knee, two between the knee and the
// saturation throughput, evenly on a logarithmic scale.
std::vector<double> branch_rates(const GoodputSearch& search, const GoodputOptions& options);

// Both starts at one rate.
struct BranchPoint {
  const LoadPoint *empty, *backlog;
  bool empty_steady, backlog_steady;  // steady, and completes what arrives

  // Whether the mean TTFTs are more than twice apart. Nothing where that is not told: of a run that is not steady they
  // depend on its length, so that one steady run at least must show a difference, and both must that there is none.
  std::optional<bool> start_matters() const;
};

// By rate, those that from_backlog has.
std::vector<BranchPoint> branch_points(const GoodputSearch& search, const GoodputOptions& options);

struct GoodputStudy {
  GoodputOptions options;
  std::vector<std::string> policies;      // as they were asked for; ratios are to the first
  std::vector<GoodputSearch> searches;    // [policy][seed]
  std::vector<std::string> out_of_reach;  // of `policies`: shown, and never recommended
  // With GoodputOptions::branches: the same with `alignment`, the assignment that makes the engine hold prompts until all
  // DP ranks have one. Without searches where there is nothing to align; `alignment` says why then.
  std::vector<GoodputSearch> aligned;
  std::string alignment;
  int seeds = 1;
  bool same_requests = false;  // all seeds have the same requests (a recorded trace): only the routing differs
};

// How far the run is that a search is making.
struct ServedSoFar {
  std::string policy;
  std::uint64_t seed = 0;
  double rate = 0;  // requests/s; 0: all at once
  std::int64_t completed = 0, requests = 0;
};

}  // namespace epsim
