// Latency figures of a run, from its request records and token gaps. All in seconds, over completed requests.
#pragma once

#include <span>

#include "sim/cluster/run_result.h"
#include "sim/scheduler/gap_samples.h"

namespace epsim {

// TTFT = first token - arrival. TPOT = (end-to-end - TTFT) / (output tokens - 1), for requests with more than one.
// End-to-end = last token - arrival. Queue = start of the first step that worked on the request - arrival. ITL: every
// gap between consecutive tokens of one request, also of requests that a run cut short left unfinished.
LatencySummary summarize_latency(std::span<const RequestRecord> requests, GapSamples& gaps);

}  // namespace epsim
