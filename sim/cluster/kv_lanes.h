// How prompts' keys and values get from prefill to decode instances.
#pragma once

#include <cstdint>
#include <string>
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
  // What so many tokens of a prompt take at a share of a lane's rate. `last`: with what a prompt has besides.
  virtual Seconds transfer_time(std::int64_t tokens, bool last, double share) const = 0;
  // What hardware leaves of a lane's rate at `now`.
  virtual double share_left(int /*lane*/, Ticks /*now*/) const { return 1.0; }
};

// All layers' keys and values, to every GPU of the decode rank what it caches, at the rate and efficiency of the NICs that
// a lane has.
//   Models : a lane is the NICs of a DP rank, or of the ranks that share one; bytes / rate at the all-to-all's measured
//            efficiency for the fewest GPUs measured, base latency included. A prompt waits for the slowest of its NICs.
//            A GPU of the decode rank gets its part from one of the prefill rank. MLA's latents are whole on every GPU,
//            so that they travel as often as the decode rank has GPUs; where those are fewer than the prefill rank's,
//            as many of these send, each by all NICs of its own.
//            A receiving lane is a queue of bytes in front of its own rate.
//   Ignores: contention inside the network; that a sender slows down where its receiver has others' prompts to take; a
//            receiving link that changes while prompts are queued before it. A prompt whose instance is lost keeps its lanes
//            until it would have been sent.
//   Source : SGLang v0.4.8, disaggregation/mooncake/conn.py, MooncakeKVReceiver: target_tp_rank by the rank's own number
//            ("For MLA models, we can retrieve KVCache from only one prefill rank"), required_dst_info_num receivers of
//            each sender. vLLM v0.10, kv_connector/v1/nixl_connector.py: every decode worker reads from p_remote_rank =
//            tp_rank // tp_ratio, of MLA whole blocks.
class KvLanes final : public KvPath {
 public:
  // Of an instance of the pool with these faults; a DP rank that decodes has `receivers` GPUs.
  KvLanes(const InstancePool& pool, const LinkProfile& link, const MoeSpec& model, int receivers,
          std::vector<Fault> faults = {});

  Seconds transfer_time(std::int64_t tokens, bool last, double share) const override;
  double share_left(int lane, Ticks now) const override;

  int per_node() const { return per_node_; }
  int ranks_per_lane() const { return ranks_per_lane_; }
  BytesPerSecond rate() const { return rate_; }  // of a lane
  // What was measured in place of a transfer between two nodes.
  std::string stand_in() const;
  // What prompts leave in the cache, on all GPUs of a decode rank together.
  Bytes cache_of(std::int64_t prompts, std::int64_t tokens) const;

 private:
  ClusterSpec cluster_;
  LinkProfile link_;
  Bytes per_token_, per_prompt_;
  std::vector<Fault> faults_;
  int attention_tp_, per_node_ = 1, ranks_per_lane_ = 1;
  BytesPerSecond rate_{};
  double sending_ = 1;  // share of the lane's NICs that have something to send
};

}  // namespace epsim
