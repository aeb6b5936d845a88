// What an instance has left of its plan when GPUs are lost (elastic expert parallelism).
//
//   Models : a lost GPU takes its DP rank with it, since attention spans all GPUs of a rank; the rank's other GPUs go
//   on
//            serving their experts, unless they are of the same EP rank. Copies on lost GPUs are dropped, and those
//            that are left share the load evenly, or as the policy's replica choice has it. Without a copy of some
//            expert, or without a rank, the instance is lost.
//   Ignores: new copies in the place of lost ones; idle GPUs of a broken rank; relays: with dedup node and all-gathers
//            rows still pass a lost GPU's port; collectives are priced as with all GPUs.
//   Source : SGLang's elastic EP (eplb_algorithms/elasticity_aware.py: dead ranks hold nothing).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/domain/parallelism.h"
#include "sim/domain/placement_plan.h"
#include "sim/serving/faults.h"
#include "sim/serving/loss.h"

namespace epsim {

struct InstanceLosses {
  std::vector<Loss> losses;          // by time
  std::vector<PlacementPlan> plans;  // [loss] what is left; without layers after a fatal one
};

// `faults` are one instance's.
InstanceLosses losses_of(std::span<const Fault> faults, const PlacementPlan& plan, const Parallelism& parallelism);

// The plan without the copies on these GPUs, or EP ranks ([GPU]); none when an expert has no other.
std::optional<PlacementPlan> without_gpus(const PlacementPlan& plan, const std::vector<bool>& lost);

}  // namespace epsim
