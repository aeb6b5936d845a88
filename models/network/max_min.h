// Flows that share the links of a topology max-min fairly, from the start of all of them to the end of the last.
//
//   Models : every flow follows its route as a fluid. Rates come from progressive filling (Bertsekas and Gallager, Data
//            Networks, 2nd edition, section 6.5.2): all rates grow alike until a link is full, its flows keep theirs,
//            the others grow on. When a flow ends, the rates are found anew. Data-sheet rates.
//   Ignores: latency, packets, how fast a protocol finds its share, order among the flows of a sender.
//   Against: two_tier prices the busiest resource alone, which is a lower bound; max_min meets it where that resource
//            is never starved by flows that wait elsewhere. It is the reference, not the fast path.
//   Cost   : O(events x (classes x hops + links of the component squared)); an event is a time at which flows end, a
//            class all flows over the same limiting links, a component what shares links directly or through others.
//            make_network() refuses it beyond 512 GPUs; max_min_time() there estimates it.
#pragma once

#include <span>
#include <vector>

#include "models/network/topology.h"

namespace epsim {

struct Flow {
  int from = 0, to = 0;  // GPUs
  Bytes bytes{};
};

struct MaxMinResult {
  Seconds time{};               // until the last flow has ended
  std::vector<Seconds> finish;  // [flow]; 0 for a flow of nothing, to its own GPU, or over unlimited links alone
  int events = 0;               // times at which flows ended
};

// Equal input gives equal results to the bit. Throws InputError when a flow names a GPU that does not exist or has a
// size that is not a finite number of at least 0.
MaxMinResult max_min(const Topology& topology, std::span<const Flow> flows);

}  // namespace epsim
