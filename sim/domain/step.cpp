#include "sim/domain/step.h"

#include "sim/core/check.h"

namespace epsim {

void StepPricer::advance_to(Ticks) {}

void StepPricer::set_conditions(const StepConditions&) {
  EPSIM_CHECK(false, "this pricer of steps knows no slowed or straggling hardware");
}

}  // namespace epsim
