// Runs of several instances: one price model each, one event queue for all.
#pragma once

#include "sim/cluster/run_policy.h"

namespace epsim {

// Plans and sizes every pool; the result's own fields are those of the last (decode instances, where there are any).
PreparedRun prepare_deployment(const Scenario& scenario, const PolicyChoice& policy);

// Instances of the same pool draw the same routing in steps of the same number. Per-GPU and per-link figures of the
// result are those of all instances side by side, links named "i0.", "i1.", ...; prompts' keys and values show as links
// of their own, "i0.kv_lane3.out" and "i2.kv_lane0.in", which share the NICs (KvLanes).
RunResult run_deployment(const Scenario& scenario, const PolicyChoice& policy, const PreparedRun& prepared,
                         const RequestTrace& requests, const RunControl& control);

// Time that a prompt of so many tokens takes from one prefill instance to a decode instance: all layers' keys and
// values, once, at the rate and efficiency of the NICs that a lane has, or at a share (`speed`) of that rate.
//   Models : a lane is the NICs of a DP rank, or of the ranks that share one; bytes / rate at the all-to-all's measured
//            efficiency for the fewest GPUs measured, base latency included.
//   Ignores: contention inside the network and at the receiving NICs.
struct KvLanes {
  int per_node = 1;
  int ranks_per_lane = 1;
  BytesPerSecond rate{};
  Seconds transfer_time(const Scenario& scenario, std::int64_t tokens, double speed = 1.0) const;
  // What the faults of one instance leave of a lane's rate at `now`: a prompt waits for the slowest of its NICs.
  double speed(const Scenario& scenario, std::span<const Fault> faults, int lane, Ticks now) const;
};
KvLanes kv_lanes(const Scenario& scenario);

}  // namespace epsim
