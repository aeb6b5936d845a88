// Whether what a rate comes to depends on how the instance got there. All DP ranks of an instance step together, so a
// queue on every rank is served faster than prompts that come one by one: an instance that starts empty may fall behind
// at a rate at which one that has worked off a backlog goes on, ranks in step, with a short queue (and, where a backlog
// leaves the instance worse off, the other way round).
//
//   Source : SGLang's issue 35241 (one deployment at 94,600 tokens/s with ranks in step, at 62,000 to 79,000 without).
#pragma once

#include <cstddef>
#include <functional>

#include "sim/cluster/run_result.h"
#include "sim/domain/request_trace.h"
#include "sim/study/goodput_result.h"

namespace epsim {

// How a search runs what it asks.
struct BranchRuns {
  std::function<RunResult(const RequestTrace&)> serve;
  // So many requests from the first on, or as many as there are; conversations that keep their own times, at this rate.
  std::function<RequestTrace(std::size_t, double rate)> first;
  std::function<void(const LoadPoint&)> on_load_point;
};

// Serves branch_rates() from both starts: of an empty instance they join the curve, after a backlog from_backlog. The
// backlog is twice what is in the system at the highest acceptable rate, 500 requests at least. A recording that is too
// short for it leaves the rate out, and so does a saturation throughput so near the rate that the backlog hardly shrinks.
void add_branches(const BranchRuns& runs, const GoodputOptions& options, GoodputSearch& search);

}  // namespace epsim
