// GRACE-MoE step 2: copies of the heaviest group's hot experts, and the loads that follow (Sec. 4.2, Eq. 2 and 3).
#pragma once

#include <span>
#include <vector>

#include "policies/placement/grace/grouping.h"
#include "policies/replica_choice/grace_routing.h"
#include "sim/core/choice.h"

namespace epsim {

// How many copies: none; one on the least loaded GPU (the paper's baseline FR); Eq. 2 (DR).
enum class GraceReplication { kNone, kFixed, kDynamic };
template <>
inline constexpr auto kNames<GraceReplication> = choice<GraceReplication>({{"dynamic", GraceReplication::kDynamic},
                                                                           {"fixed", GraceReplication::kFixed},
                                                                           {"none", GraceReplication::kNone}});

// Eq. 2: min(max(1, floor(W_max / mean)), GPUs - 1); 0 without load.
int replica_count(std::span<const double> group_loads);

struct GraceCopies {
  int heaviest = 0;                    // the group whose experts are copied
  std::vector<int> experts;            // hot, the most loaded first
  std::vector<int> gpus;               // that get a copy of each of them, the least loaded first
  std::vector<double> predicted_load;  // [GPU] W'
};

// Hot experts are the fewest of the heaviest group, by descending load, whose loads together exceed W_max n / (n + 1);
// they go to the n least loaded other GPUs. Ties to the lower id. loads[e] per expert, groups[g] = the experts of GPU
// g.
GraceCopies replicate_heaviest(std::span<const double> loads, const Grouping& groups, GraceReplication how,
                               Prediction prediction);

}  // namespace epsim
