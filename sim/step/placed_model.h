// A price model and the plan that it stands on, which may change between steps.
#pragma once

#include <memory>
#include <vector>

#include "sim/domain/placement.h"
#include "sim/step/step_pricing.h"

namespace epsim {

// What is on the GPUs, and how copies share their tokens ([layer]; empty: evenly).
struct PlanInPlace {
  PlacementPlan plan;
  std::vector<SourceShares> shares;
};

class PlacedModel {
 public:
  // Scenario and policy outlive it; a recorder may be null.
  PlacedModel(const Scenario& scenario, const PolicyChoice& policy, const PlanInPlace& plan, StepRecorder* recorder);

  // For the steps from now on. That it fits into memory is the caller's to know.
  void place(const PlanInPlace& plan);
  StepCost price(const StepAt& at, std::span<const RankBatch> ranks) { return pricing_.pricer().price(at, ranks); }
  void set_conditions(const StepConditions& conditions) { pricing_.pricer().set_conditions(conditions); }
  StepModel& model() { return *pricing_.model; }

 private:
  const Scenario& scenario_;
  std::unique_ptr<Placement> placement_;
  StepPricing pricing_;
};

// The placement of a plan, whatever memory it takes.
Placement build_unlimited(const Scenario& scenario, const PlanInPlace& plan);

}  // namespace epsim
