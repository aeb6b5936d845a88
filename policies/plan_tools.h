// Views of a plan that several readers of it need.
#pragma once

#include <vector>

#include "sim/core/error.h"
#include "sim/domain/cluster_spec.h"
#include "sim/domain/placement_plan.h"

namespace epsim {

// For each logical expert the slots that hold it, by copy rank ("log2phy", ragged); in slot order where the plan gives
// no ranks. Throws InvariantBroken when the ranks of an expert are not 0 .. copies - 1.
std::vector<std::vector<int>> slots_by_expert(const LayerPlan& layer, int experts);

// The GPU of each slot.
std::vector<int> gpus_of_slots(const LayerPlan& layer);

// Copies of each logical expert ("logcnt").
std::vector<int> copies_by_expert(const LayerPlan& layer, int experts);

// Experts that each GPU holds when they are divided evenly; InputError at `place` when they do not divide.
int even_share(int experts, const ClusterShape& shape, const InputPlace& place);

}  // namespace epsim
