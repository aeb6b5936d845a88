// Adds declared times to a step's price, and refuses a price that contradicts itself.
#pragma once

#include "sim/domain/step.h"

namespace epsim {

// Adds time of origin `declared` to a step's price.
void add_declared(StepCost& cost, LayerPart part, Seconds time);

// Throws InvariantBroken unless every share is finite and not negative, the parts and the origins each sum to the total
// (relative 1e-9), and waiting is not longer than the step.
void check_cost(const StepCost& cost);

}  // namespace epsim
