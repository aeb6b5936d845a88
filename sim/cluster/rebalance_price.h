// What going from one plan to another costs an instance that stops serving for it: planning, then every layer's weights one
// after another, as the rebalancer's mode sync does it (rebalancer.h), with the engine's defaults.
#pragma once

#include "sim/cluster/prepare.h"
#include "sim/core/units.h"

namespace epsim {

struct RebalancePrice {
  Bytes moved{};    // over all GPUs
  Seconds pause{};  // planning and moving
};

// Both are of the same pool of the scenario.
RebalancePrice price_rebalance(const Scenario& scenario, const PreparedInstance& next,
                               const PreparedInstance& previous);

}  // namespace epsim
