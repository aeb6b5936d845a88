// Plans while GPUs go and come back (elastic expert parallelism). Where EP ranks have several GPUs, read EP rank for
// GPU.
//   Source : SGLang's eplb_algorithms/elasticity_aware.py: ranks that are gone hold nothing, and the slots of the
//            others, as many as they had, are planned anew over all experts.
#pragma once

#include <optional>
#include <vector>

#include "sim/domain/load_window.h"
#include "sim/domain/placement_plan.h"

namespace epsim {

using LostGpus = std::vector<bool>;  // [GPU]

// `plan` when the GPUs that are lost, `before` and `now`, change: those that go hold nothing, those that come back what
// they have in `first`. Experts may be left without a copy.
PlacementPlan with_gpus_left(const PlacementPlan& plan, const PlacementPlan& first, const LostGpus& before,
                             const LostGpus& now);

// Whether every expert has a copy in every layer.
bool has_every_expert(const PlacementPlan& plan);

// Experts without a copy, the hottest first, each take a slot from one that has several: the slot with which the load
// of the GPUs concerned peaks least, copies sharing evenly; of equal ones the first. None where slots do not suffice.
std::optional<PlacementPlan> give_slots_to_missing(PlacementPlan plan, const LoadWindow& loads);

// The slots that `first` has on GPUs that are left, planned anew: copies for the hottest, then each to the GPU with
// least load (place_by_capacity). None where slots do not suffice.
std::optional<PlacementPlan> plan_for_left(const PlacementPlan& first, const LostGpus& lost, const LoadWindow& loads);

}  // namespace epsim
