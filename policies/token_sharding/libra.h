// Libra's adaptive token rebalancer: which remote tokens go to another copy of their expert.
//   Source  : Libra, Sec. 3.3 and Algorithm 2 (Appendix C).
//   Readings: after each transfer the busiest GPU is looked for again (as text and Fig. 7 say; `stale_order` keeps the
//             printed loop); the amount is not capped by the source's excess (`cap_excess` does); whole tokens move, at
//             least one; epsilon, never given in the paper, is 0.01.
#pragma once

#include <cstdint>

#include "policies/prefetch/residency.h"

namespace epsim {

struct LibraShardingOptions {
  double epsilon = 0.01;     // tolerated imbalance above the mean
  bool stale_order = false;  // literal Algorithm 2: go on through the overloaded GPUs as they were ordered
  bool cap_excess = false;   // move no more than the source has above the mean
};

struct LibraSharding {
  TokenAssignment tokens;  // all tokens, [GPU][expert]
  std::int64_t moved = 0;  // tokens that were sent elsewhere than to their expert's home
  int transfers = 0;
};

// Requests whose expert is resident where their token lives stay there; the others start at the expert's home and may
// move to any GPU that holds it. Every token is computed exactly once.
LibraSharding libra_shard(const RequestMatrix& requests, const Residency& held, const LibraShardingOptions& options);

}  // namespace epsim
