// What prices the steps of one instance under one placement, as the scenario's `execution` has it.
#pragma once

#include <memory>

#include "models/step/step_model.h"
#include "sim/scenario/scenario.h"

namespace epsim {

// The model, and what plays its steps on the event queue where something overlaps.
struct StepPricing {
  std::unique_ptr<StepModel> model;
  std::unique_ptr<StepPricer> played;  // null: the model itself
  StepPricer& pricer() const { return played != nullptr ? *played : *model; }
};

// Arguments outlive it; a recorder may be null.
StepPricing price_steps(const Scenario& scenario, const PolicyChoice& policy, const Placement& placement,
                        StepRecorder* recorder);

}  // namespace epsim
