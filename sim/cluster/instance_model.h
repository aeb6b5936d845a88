// What stands behind the schedulers of an instance: its experts, the plan that they lie by, the hardware, and what steps
// take on these. It keeps no clock; the instance says what time it is.
#pragma once

#include <optional>

#include "sim/cluster/hardware_change.h"
#include "sim/domain/step.h"

namespace epsim {

// price() is told when the step begins. A model whose plan never changes has nothing to say to the rest.
class InstanceModel : public StepPricer {
 public:
  void set_conditions(const StepConditions&) override {}

  // GPUs went or came back. For how long the instance stands still to make copies again; none where it cannot go on for
  // lack of an expert.
  virtual std::optional<Ticks> recover(const HardwareChange& /*change*/) { return Ticks{}; }

  // The step priced last has ended.
  virtual void end_step(Ticks /*now*/) {}
  // When the plan that is being made, or the next layer's weights, will be there; none where nothing is under way. What
  // it returned last holds until a step begins or ends, the arrival itself, or a recovery.
  virtual std::optional<Ticks> next_arrival() const { return std::nullopt; }
  virtual void on_arrival(Ticks /*now*/) {}
  // No step may begin before the next arrival.
  virtual bool holds_steps() const { return false; }
  // What a step that begins now has waited for since `due`, by part.
  virtual StepCost waited(Ticks /*due*/, Ticks /*now*/) { return {}; }
};

}  // namespace epsim
