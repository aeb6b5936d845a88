// Libra's adaptive token rebalancer: which remote tokens go to another copy of their expert.
//   Source  : Libra, Sec. 3.3 and Algorithm 2 (Appendix C).
//   Readings: after each transfer the busiest GPU is looked for again (as text and Fig. 7 say; `stale_order` keeps the
//             printed loop); the amount is not capped by the source's excess (`cap_excess` does); whole tokens move, at
//             least one; epsilon, never given in the paper, is 0.01.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

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
  LibraSharding take() { return std::move(out_); }

 private:
  bool pass();
  bool transfer_from(int source);
  bool transfer(int source, int expert);
  void move(int source, int target, int expert, std::int64_t amount);

  const RequestMatrix& requests_;
  const Residency& held_;
  LibraShardingOptions options_;
  double target_;
  LibraSharding out_;
  TokenAssignment remote_;  // the part of out_.tokens whose tokens live on another GPU
  std::vector<std::int64_t> load_;
  std::vector<std::uint8_t> tried_;
};

// Requests whose expert is resident where their token lives stay there; the others start at the expert's home and may
// move to any GPU that holds it. Every token is computed exactly once.
LibraSharding libra_shard(const RequestMatrix& requests, const Residency& held, const LibraShardingOptions& options);

}  // namespace epsim
