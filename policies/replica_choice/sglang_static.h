// SGLang's static dispatch: every source GPU has one copy of each expert that it always uses.
//   Source  : sglang, srt/eplb/expert_location.py, compute_logical_to_rank_dispatch_physical_map (ep_dispatch_algorithm
//             "static"); its seed is 42. Nodes came with pull request 9849 (September 2025, v0.5.3), the exemption for
//             experts whose copies are all in one node with 30164 (July 2026).
//   Models  : the copy on the same GPU (the first, if there are several); else, as `near` says, the first in the same
//             node; the other GPUs get the list of copies as often as it goes into their number, plus a random sample of
//             it for the rest, shuffled.
//   Ignores : Python's random numbers: which copy a far GPU gets differs from SGLang's, how many get each does not.
#pragma once

#include <span>
#include <vector>

#include "sim/core/choice.h"
#include "sim/core/rng.h"
#include "sim/domain/cluster_spec.h"

namespace epsim {

// Which copies are preferred to those that are dealt out. kNode sends all GPUs of a node that have no copy of their own
// to the first there, even where no other node has one: of an expert with copies in one node alone, it gets most tokens.
// kNodeIfFewer deals those out.
enum class Near { kGpu, kNode, kNodeIfFewer };
template <>
inline constexpr auto kNames<Near> =
    choice<Near>({{"gpu", Near::kGpu}, {"node", Near::kNode}, {"node_if_fewer", Near::kNodeIfFewer}});

// For every GPU the index into `holders` (GPU of each copy, by copy rank) of the copy that it uses.
std::vector<int> sglang_static_copies(std::span<const int> holders, const ClusterShape& shape, Near near,
                                      RandomStream& random);

}  // namespace epsim
