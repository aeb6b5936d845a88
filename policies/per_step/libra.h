// Libra: which experts each GPU brings in for the next layer, and which remote tokens then go to another copy.
//   Source  : Libra, Sec. 3.2 and Algorithm 1 (Appendix B); Sec. 3.3 and Algorithm 2 (Appendix C).
//   Readings: a request counts as local load where its expert is resident and as load of the expert's home elsewhere;
//             the target is total / GPUs; phase 2 takes the expert with most remote load of the busiest GPU, copies it
//             to the lightest GPU with room, and moves that GPU's own requests there; when that would overfill it, the
//             next expert is tried (literal: stop).
//             Tokens: after each transfer the busiest GPU is looked for again (as text and Fig. 7 say; `stale_order`
//             keeps the printed loop); the amount is not capped by the source's excess (`cap_excess` does); whole tokens
//             move, at least one; epsilon, never given in the paper, is 0.01.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "policies/residency.h"
#include "sim/core/choice.h"
#include "sim/core/units.h"

namespace epsim {

// What a copy is expected to take off the busiest GPU while planning: line 17 of Algorithm 1 updates loads "to reflect
// newly localised computations", and Sec. 3.2 wants "a foundation for load balancing".
//   kOwnRequests: the requests of the GPU that gets it, the printed algorithm. Spends a copy per GPU to relieve a single
//                 hot expert, and ends on DeepSeek-R1's loads at 1.1 to 1.25 times the mean.
//   kRebalanced : as much of the expert's remote load at home as brings the GPU that gets it to the target, which is
//                 what the token rebalancer can do with the copy afterwards.
//   kSimulated  : all that the token rebalancer then moves, over this copy and those before it: Algorithm 2 runs on the
//                 predicted requests after every copy.
// What each reaches is in tests/policies/libra_bounds_test.cpp and libra_loads_test.cpp.
enum class LibraRelief { kOwnRequests, kRebalanced, kSimulated };
template <>
inline constexpr auto kNames<LibraRelief> = choice<LibraRelief>({{"own_requests", LibraRelief::kOwnRequests},
                                                                 {"rebalanced", LibraRelief::kRebalanced},
                                                                 {"simulated", LibraRelief::kSimulated}});

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

struct LibraShardingOptions {
  double epsilon = 0.01;     // tolerated imbalance above the mean
  bool stale_order = false;  // literal Algorithm 2: go on through the overloaded GPUs as they were ordered
  bool cap_excess = false;   // move no more than the source has above the mean
};

// Algorithm 2 as it runs: the prefetcher lets it run on predicted requests to see what a further copy would bring.
// `requests` and `held` must outlive it.
class LibraRebalancer {
 public:
  LibraRebalancer(const RequestMatrix& requests, const Residency& held, const LibraShardingOptions& options);
  // Moves remote tokens until GPUs are balanced or nothing can move. May be called again after copies were added.
  void run();
  // `held` has a new copy of the expert on `gpu`: the GPU's own requests for it, as far as they wait at the expert's
  // home, are served where they are.
  void copy_added(int expert, int gpu);

  double target() const { return target_; }  // mean load
  std::int64_t load(int gpu) const { return load_[static_cast<std::size_t>(gpu)]; }
  // Tokens from elsewhere that a GPU computes for an expert: the ones that can still move.
  std::int64_t remote(int gpu, int expert) const { return remote_.at(gpu, expert); }
  TokenAssignment take() { return std::move(out_); }

 private:
  bool pass();
  bool transfer_from(int source);
  bool transfer(int source, int expert);
  void move(int source, int target, int expert, std::int64_t amount);

  const RequestMatrix& requests_;
  const Residency& held_;
  LibraShardingOptions options_;
  double target_;
  TokenAssignment out_;
  TokenAssignment remote_;  // the part of out_ whose tokens live on another GPU
  std::vector<std::int64_t> load_;
  std::vector<std::uint8_t> tried_;
};

// Requests whose expert is resident where their token lives stay there; the others start at the expert's home and may
// move to any GPU that holds it. Every token is computed exactly once.
TokenAssignment libra_shard(const RequestMatrix& requests, const Residency& held, const LibraShardingOptions& options);

}  // namespace epsim
