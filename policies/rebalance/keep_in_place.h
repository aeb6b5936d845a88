// Renaming a new plan so that fewer experts have to move, without changing how balanced it is.
#pragma once

#include "sim/domain/placement_plan.h"

namespace epsim {

// kSlots: an expert that stays on its GPU keeps its slot (what vLLM does after EPLB, preserve_intragpu_slots). kGpus:
// GPUs of the new plan that have equally many slots in a layer also swap names, layer by layer, so that as many experts
// as possible stay on their GPUs (an assignment problem), then slots as above. kGpusInNode: the same, but only GPUs of
// one node swap names, so that a hierarchical plan keeps its groups on their nodes.
enum class Keep { kSlots, kGpus, kGpusInNode };

// `next` renamed against `previous`: the same load on every GPU up to renaming. Layers whose slots per GPU differ from
// the previous plan's keep their slots in order. Both plans must be for the same model and GPUs.
PlacementPlan keep_in_place(const PlacementPlan& next, const PlacementPlan& previous, int gpus_per_node, Keep how);

// Experts that a GPU has in `next` and had not before, summed over GPUs and layers: weights that must travel. Several
// copies of one on a GPU take one.
int moved_copies(const PlacementPlan& next, const PlacementPlan& previous);

}  // namespace epsim
