// The extension point for expert placement.
#pragma once

#include "sim/domain/cluster_spec.h"
#include "sim/domain/load_window.h"
#include "sim/domain/placement_plan.h"

namespace epsim {

// Chooses how many copies each expert has and on which GPUs.
//
// In: routed assignments per (layer, logical expert), finite and not negative; how many GPUs there are and which of
// them share a node. Out: for every layer of the window, at least one copy of every expert. Equal inputs give equal
// plans: no clock, no I/O, and random choices come from a stream that the policy's own seed names. Throws InputError
// when the shape cannot be served (experts that do not divide over GPUs, say); whether the plan fits into memory is
// checked later, by Placement::build. const and safe to call from several threads.
class PlacementPolicy {
 public:
  virtual ~PlacementPolicy() = default;
  virtual PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const = 0;
  // During a run: `previous`, of the same model and GPUs, is in place. Policies that change few experts start from it.
  virtual PlacementPlan replan(const LoadWindow& load, const ClusterShape& shape, const PlacementPlan&) const {
    return plan(load, shape);
  }
};

}  // namespace epsim
