// What a run adds up step by step beside its result, for the figures and for the audit at the end.
#pragma once

#include <cstdint>

#include "sim/cluster/request_time.h"
#include "sim/core/units.h"
#include "sim/scheduler/gap_samples.h"

namespace epsim {

struct RunCounters {
  std::int64_t prefill_tokens = 0;  // priced
  std::int64_t decode_tokens = 0;   // priced
  RequestTimeIntegral requests;
  double kv_block_seconds = 0;   // blocks in use x time, ranks of the last pool
  Ticks busy{};                  // steps
  Ticks blocked{};               // of which a request at the head of some rank's queue lacked KV blocks
  GapSamples gaps;               // of measured requests
  std::int64_t warmup_gaps = 0;  // of the others, whose samples are not kept
  std::int64_t all_gaps() const { return gaps.count() + warmup_gaps; }
};

}  // namespace epsim
