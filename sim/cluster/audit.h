// The sanity bounds of a serving run, checked on every run: what a broken scheduler would get wrong first.
#pragma once

#include <memory>
#include <span>

#include "sim/cluster/run_counters.h"
#include "sim/cluster/run_result.h"
#include "sim/scheduler/scheduler.h"

namespace epsim {

// Throws InvariantBroken unless, for the requests as they stand at result.end:
//   - every request is completed, running or waiting, and the counts add up; an uninterrupted run completed them all;
//   - arrival <= admitted < first token <= finished, as far as each was reached;
//   - the prompt and decode tokens that were priced are those that the requests got, those that a retraction made to be
//     computed again and those that the prefix cache had accounted for; each token but a request's first has one gap;
//   - KV blocks in use are those of the running requests and those that the prefix cache lends, and never passed the
//     pool;
//   - Little's law, as an identity of integers: the time that requests spent in the system sums to the integral over
//     time of their number.
// Fills in the Little fields of `result.conservation`.
void audit_run(RunResult& result, const RunCounters& counters, std::span<const std::unique_ptr<Scheduler>> ranks);

}  // namespace epsim
