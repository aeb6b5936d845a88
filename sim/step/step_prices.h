// What the steps of one instance take: the models that `execution` and the policy ask for, on the plan and the hardware
// that they were told last. Knows no time: a price depends on the batch, the plan and the hardware alone.
#pragma once

#include <memory>
#include <vector>

#include "models/step/step_model.h"
#include "sim/domain/placement.h"
#include "sim/scenario/scenario.h"
#include "sim/step/drafter.h"

namespace epsim {

// What is on the GPUs, and how copies share their tokens ([layer]; empty: evenly).
struct PlanInPlace {
  PlacementPlan plan;
  std::vector<SourceShares> shares;
};

// The placement of a plan, whatever memory it takes.
Placement build_unlimited(const InstancePool& pool, const PlanInPlace& plan);

class StepPrices {
 public:
  // Of an instance of the pool. All arguments but the plan outlive it; a recorder may be null.
  StepPrices(const Scenario& scenario, const InstancePool& pool, const PolicyChoice& policy, const PlanInPlace& plan,
             StepRecorder* recorder);

  StepCost price(const StepAt& at, std::span<const RankBatch> ranks);

  // For the steps from now on. That the plan fits into memory is the caller's to know.
  void place(const PlanInPlace& plan);
  void set_conditions(const StepConditions& conditions);

  // Adds up what all steps priced so far did, but for the drafter. Its own price is that of the same pieces one after
  // another.
  StepModel& model() { return *model_; }
  const StepModel& model() const { return *model_; }

 private:
  StepPricer& pricer() { return played_ != nullptr ? *played_ : *model_; }

  InstancePool pool_;
  std::unique_ptr<Placement> placement_;
  std::unique_ptr<StepModel> model_;
  std::unique_ptr<StepPricer> played_;  // plays the model's pieces on the event queue; null: the closed form
  std::unique_ptr<Drafter> drafter_;    // null: nothing proposes tokens, or it takes no time
  StepRecorder* recorder_;
};

}  // namespace epsim
