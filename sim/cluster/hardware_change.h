// When hardware of an instance slows down, goes or comes back, and what goes and comes with it: the scenario's `faults`
// as a list of changes by time, each an event of the run.
//
//   Models : a lost GPU takes its DP rank with it, since attention spans all GPUs of a rank. The rank's other GPUs go on
//            serving their experts, unless they are of the same EP rank. Without a rank the instance is lost, as it is
//            without a copy of some expert (expert_recovery.h). A rank is back when all of its GPUs are.
//            Speeds hold for steps, and transfers of prompts, that begin at or after the change.
//   Ignores: idle GPUs of a broken rank; relays: with dedup node and all-gathers rows still pass a lost GPU's port;
//            collectives are priced as with all GPUs.
//   Source : SGLang's elastic EP (eplb_algorithms/elasticity_aware.py: dead ranks hold nothing).
#pragma once

#include <span>
#include <vector>

#include "policies/rebalance/elastic.h"
#include "sim/domain/cluster_spec.h"
#include "sim/domain/parallelism.h"
#include "sim/domain/step.h"
#include "sim/scenario/faults.h"

namespace epsim {

struct HardwareChange {
  Ticks at{};
  Ticks recovery{};            // for which the instance then begins no step: until it is noticed and the rest regrouped
  std::vector<int> ranks;      // DP ranks that go with it
  bool fatal = false;          // the instance cannot go on: no rank is left
  std::vector<int> back = {};  // DP ranks that are whole again
  bool gpus = true;            // GPUs go or come back; false: speeds change, and nothing else
  LostGpus lost = {};          // [EP rank] gone from then on
  StepConditions conditions = {};  // speeds from then on
};

// By time; changes at the same time are one. `faults` are one instance's.
std::vector<HardwareChange> hardware_changes(std::span<const Fault> faults, const ClusterSpec& cluster,
                                             const Parallelism& parallelism);

// The scenario's faults that are instance number `instance`'s.
std::vector<Fault> faults_of(std::span<const Fault> faults, int instance);

// Speeds at `now`; empty vectors where nothing holds. GPUs that are gone are at full speed: nobody waits for them.
StepConditions conditions_at(std::span<const Fault> faults, Ticks now, const ClusterSpec& cluster);

}  // namespace epsim
