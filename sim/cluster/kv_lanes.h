// How prompts' keys and values get from prefill to decode instances.
#pragma once

#include <cstdint>
#include <vector>

#include "models/catalogue/hardware_profile.h"
#include "sim/domain/moe_spec.h"
#include "sim/scenario/deployment_options.h"
#include "sim/scenario/faults.h"

namespace epsim {

// The links that prompts leave a prefill instance by, or reach a decode instance: lanes, each for one prompt after
// another.
class KvPath {
 public:
  virtual ~KvPath() = default;
  // What a prompt of so many tokens takes at a share of a lane's rate.
  virtual Seconds transfer_time(std::int64_t tokens, double share) const = 0;
  // What hardware leaves of a lane's rate at `now`.
  virtual double share_left(int /*lane*/, Ticks /*now*/) const { return 1.0; }
};

// All layers' keys and values, once, at the rate and efficiency of the NICs that a lane has.
//   Models : a lane is the NICs of a DP rank, or of the ranks that share one; bytes / rate at the all-to-all's measured
//            efficiency for the fewest GPUs measured, base latency included. A prompt waits for the slowest of its NICs.
//   Ignores: contention inside the network and at the receiving NICs.
class KvLanes final : public KvPath {
 public:
  // Of an instance of the pool with these faults.
  KvLanes(const InstancePool& pool, const LinkProfile& link, const MoeSpec& model, std::vector<Fault> faults = {});

  Seconds transfer_time(std::int64_t tokens, double share) const override;
  double share_left(int lane, Ticks now) const override;

  int per_node() const { return per_node_; }
  int ranks_per_lane() const { return ranks_per_lane_; }
  BytesPerSecond rate() const { return rate_; }  // of a lane
  // What prompts leave in the cache, on all GPUs of a rank together.
  Bytes cache_of(std::int64_t prompts, std::int64_t tokens) const;

 private:
  ClusterSpec cluster_;
  LinkProfile link_;
  Bytes per_token_, per_prompt_;
  std::vector<Fault> faults_;
  int attention_tp_, per_node_ = 1, ranks_per_lane_ = 1;
  BytesPerSecond rate_{};
};

}  // namespace epsim
