// Libra's hierarchical expert prefetcher: which experts each GPU brings in for the next layer.
//   Source  : Libra, Sec. 3.2 and Algorithm 1 (Appendix B).
//   Readings: a request counts as local load where its expert is resident and as load of the expert's home elsewhere;
//             the target is total / GPUs; phase 2 takes the expert with most remote load of the busiest GPU, copies it
//             to the lightest GPU with room, and moves that GPU's own requests there; when that would overfill it, the
//             next expert is tried (literal: stop).
#pragma once

#include "policies/prefetch/residency.h"
#include "sim/core/units.h"

namespace epsim {

// What a copy is expected to take off the busiest GPU while planning: line 17 of Algorithm 1 updates loads "to reflect
// newly localised computations", and Sec. 3.2 wants "a foundation for load balancing".
//   kOwnRequests: the requests of the GPU that gets it, the printed algorithm. Spends a copy per GPU to relieve a
//   single
//                 hot expert, and ends on DeepSeek-R1's loads at 1.1 to 1.25 times the mean.
//   kRebalanced : as much of the expert's remote load at home as brings the GPU that gets it to the target, which is
//                 what the token rebalancer can do with the copy afterwards.
//   kSimulated  : all that the token rebalancer then moves, over this copy and those before it: Algorithm 2 runs on the
//                 predicted requests after every copy.
// What each reaches is in tests/policies/libra_bounds_test.cpp and libra_loads_test.cpp.
enum class LibraRelief { kOwnRequests, kRebalanced, kSimulated };

struct LibraPrefetchOptions {
  int n_extra = 8;       // N: experts a GPU may hold besides its own
  int n_local = 4;       // L: of which brought in for its own tokens in phase 1
  bool literal = false;  // stop at the first expert that cannot be placed
  LibraRelief relief = LibraRelief::kOwnRequests;
};

// L for a share alpha of N, halves rounded up (the paper's N = 8, alpha = 0.5 gives 4).
int libra_local_count(int n_extra, double alpha);

// Largest N whose weights arrive within the time window, at most `limit` (Sec. 3.2: N is bounded by memory and by the
// window, a function of MoE computation time and bandwidth).
int libra_extra_for_window(Bytes expert, BytesPerSecond rate, Seconds window, int limit);

// Residency for the next layer from the requests predicted for it. No GPU gets more than n_extra experts.
Residency libra_prefetch(const RequestMatrix& predicted, const Residency& home, const LibraPrefetchOptions& options);

}  // namespace epsim
