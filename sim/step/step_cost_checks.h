// Adds declared gaps to a step's price, and refuses a price that contradicts itself.
#pragma once

#include "sim/domain/step.h"

namespace epsim {

// A step's price with the scenario's declared gap in it (layer part `other`, origin `declared`).
StepCost with_gap(StepCost cost, Seconds gap);

// Throws InvariantBroken unless every share is finite and not negative, the parts and the origins each sum to the total
// (relative 1e-9), and waiting is not longer than the step.
void check_cost(const StepCost& cost);

}  // namespace epsim
