// SGLang's static dispatch: every source GPU has one copy of each expert that it always uses.
//   Source  : sglang 0.4.8 and 0.4.10, srt/managers/expert_location.py, compute_logical_to_rank_dispatch_physical_map
//             (ep_dispatch_algorithm "static"); its seed is 42. The rule about nodes came with PR 9849, after both.
//   Models  : the copy on the same GPU (the first, if there are several); with `prefer_same_node`, else the first in the
//             same node, where other nodes have copies too; the other GPUs get the list of copies as often as it goes
//             into their number, plus a random sample of it for the rest, shuffled.
//   Ignores : Python's random numbers: which copy a far GPU gets differs from SGLang's, how many get each does not.
#pragma once

#include <span>
#include <vector>

#include "sim/core/rng.h"
#include "sim/domain/cluster_spec.h"

namespace epsim {

// For every GPU the index into `holders` (GPU of each copy, by copy rank) of the copy that it uses. Without
// `prefer_same_node` only a copy on the same GPU is preferred.
std::vector<int> sglang_static_copies(std::span<const int> holders, const ClusterShape& shape, bool prefer_same_node,
                                      RandomStream& random);

}  // namespace epsim
