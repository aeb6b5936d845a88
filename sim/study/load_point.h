// One point of a throughput-TTFT curve: a trace scaled to a rate, and what its run comes to.
#pragma once

#include <span>

#include "sim/cluster/run_result.h"
#include "sim/domain/request_trace.h"
#include "sim/study/goodput_result.h"

namespace epsim {

// (requests - 1) / (last arrival - first arrival). Throws InputError when that is not defined.
double arrival_rate(const RequestTrace& trace);

// The same requests at `rate` per second: every gap between arrivals is scaled alike, so that all rates and policies
// see the same pattern of arrivals and the same lengths (for Poisson arrivals this is exact).
RequestTrace at_rate(const RequestTrace& trace, double rate);

// The first `count` requests.
RequestTrace first_of(const RequestTrace& trace, std::size_t count);

// The `count` requests in a row that come in the least time, the first at zero; all, where there are no more.
RequestTrace busiest_of(const RequestTrace& trace, std::size_t count);

// All requests at time zero: the most that can be offered.
RequestTrace as_burst(const RequestTrace& trace);

// The last `backlog` requests at time zero, before the others, which come at `rate`.
RequestTrace after_backlog(const RequestTrace& trace, std::size_t backlog, double rate);

// At most 256 of the requests, evenly picked, cut to their first output token and so far apart that each is alone.
RequestTrace one_at_a_time(const RequestTrace& trace);

// Mean TTFT of the run of one_at_a_time(). Throws RunFailed when requests met each other after all.
double idle_ttft_s(const RunResult& run);

// Completions per second of the run of as_burst(), from the end of the warm-up share of them to the start of the drain
// share; of the whole burst where all of that ends at once.
double saturation_rate(const RunResult& run, const GoodputOptions& options);

// What a run of after_backlog() begins with: the backlog, and the requests that come while it is worked off.
struct Backlog {
  std::size_t requests = 0, meanwhile = 0;
};

// Of the requests after `backlog`. After one a steady run must not get emptier either: it would still be worked off.
// Throws InputError when the measured part has too few requests for the two halves of the stability check.
LoadPoint measure_load_point(const RunResult& run, double rate, const GoodputOptions& options,
                             const Backlog& backlog = {});

// Share of the measured time in which a GPU of the run steps, on average.
double measured_busy(const RunResult& run, const GoodputOptions& options);

// Whether a series that should be steady grows: the mean of its second half exceeds that of the first by more than
// `max_drift` of it, and it rises by more than chance explains (trend_t() at 95 %, two-sided: one steady series in 40
// seems to rise, also where values next to each other are alike, as in a queue).
bool drifts(std::span<const double> series, double max_drift);

}  // namespace epsim
