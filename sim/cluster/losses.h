// When GPUs of an instance go and come back, and what goes and comes with them (elastic expert parallelism).
//
//   Models : a lost GPU takes its DP rank with it, since attention spans all GPUs of a rank; the rank's other GPUs go
//   on
//            serving their experts, unless they are of the same EP rank. Without a rank the instance is lost, as it is
//            without a copy of some expert (regroup.h). A rank is back when all of its GPUs are.
//   Ignores: idle GPUs of a broken rank; relays: with dedup node and all-gathers rows still pass a lost GPU's port;
//            collectives are priced as with all GPUs.
//   Source : SGLang's elastic EP (eplb_algorithms/elasticity_aware.py: dead ranks hold nothing).
#pragma once

#include <span>
#include <vector>

#include "policies/rebalance/elastic.h"
#include "sim/cluster/loss.h"
#include "sim/domain/parallelism.h"
#include "sim/scenario/faults.h"

namespace epsim {

struct InstanceLosses {
  std::vector<Loss> losses;    // by time
  std::vector<LostGpus> lost;  // [loss][EP rank] gone from then on
};

// `faults` are one instance's. GPUs that go or come back at the same time do so together.
InstanceLosses losses_of(std::span<const Fault> faults, const Parallelism& parallelism);

}  // namespace epsim
