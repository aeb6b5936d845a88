// What a run adds up step by step beside its result, for the figures and for the audit at the end.
#pragma once

#include <cstdint>

#include "sim/core/units.h"
#include "sim/scheduler/gap_samples.h"

namespace epsim {

// The integral over time of the number of requests in the system, exact in integers: request-picoseconds of a long run
// pass 2^63 (100,000 requests of 100 s each come to 1e19), so that it takes 128 bits.
__extension__ using RequestTicks = __int128;

class RequestTimeIntegral {
 public:
  // To be called before the number changes at `now`, or to bring the integral up to date.
  void advance(Ticks now) {
    sum_ += static_cast<RequestTicks>((now - last_).count()) * in_system_;
    last_ = now;
  }
  void arrived() { ++in_system_; }
  void left(std::int64_t count) { in_system_ -= count; }
  std::int64_t in_system() const { return in_system_; }
  RequestTicks sum() const { return sum_; }

 private:
  RequestTicks sum_ = 0;
  std::int64_t in_system_ = 0;
  Ticks last_{};
};

struct RunCounters {
  std::int64_t prefill_tokens = 0;  // priced
  std::int64_t decode_tokens = 0;   // priced
  RequestTimeIntegral requests;
  double kv_block_seconds = 0;   // blocks in use x time, ranks of the last pool
  Ticks busy{};                  // steps
  Ticks blocked{};               // of which a request at the head of some rank's queue lacked KV blocks
  GapSamples gaps;               // of measured requests
  std::int64_t warmup_gaps = 0;  // of the others, whose samples are not kept
  std::int64_t warmup_lookup_tokens = 0, warmup_hit_tokens = 0;  // Scheduler::Counts, as the warm-up ended
  std::int64_t all_gaps() const { return gaps.count() + warmup_gaps; }
};

}  // namespace epsim
