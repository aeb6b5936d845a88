#include "sim/step/step_prices.h"

#include "sim/step/event_pricer.h"
#include "sim/step/policy_pricer.h"

namespace epsim {
namespace {

// What prices the steps instead of the model's closed form, where something overlaps or the scenario asks for events;
// else null.
std::unique_ptr<StepPricer> other_pricer(const Scenario& s, const InstancePool& pool, const PolicyChoice& policy,
                                         const PlacementPlan& plan, StepModel& model, StepRecorder* recorder) {
  if (policy.per_step != nullptr) {
    auto pricer = std::make_unique<PolicyPricer>(model, *policy.per_step, pool.cluster, s.execution, policy.step_run,
                                                 plan, s.plan_window, s.seed);
    pricer->record_to(recorder);
    return pricer;
  }
  if (s.execution.mode == ExecutionMode::kEvent) {
    auto pricer = std::make_unique<EventPricer>(model, s.execution);
    pricer->record_to(recorder);
    return pricer;
  }
  model.record_to(recorder);
  return nullptr;
}

}  // namespace

Placement build_unlimited(const InstancePool& pool, const PlanInPlace& plan) {
  return Placement::build(plan.plan, shape_of(pool.cluster), Bytes(0), Bytes(0), plan.shares, pool.parallelism.moe_tp);
}

StepPrices::StepPrices(const Scenario& s, const InstancePool& pool, const PolicyChoice& policy, const PlanInPlace& plan,
                       StepRecorder* recorder)
    : pool_(pool), placement_(std::make_unique<Placement>(build_unlimited(pool, plan))), recorder_(recorder) {
  const ExpertLoadSource& loads = policy.ceiling == Ceiling::kPerfectBalance ? *s.balanced_loads : *s.loads;
  model_ = std::make_unique<StepModel>(s.model, pool.cluster, pool.parallelism, pool.dispatch, *placement_, loads,
                                       s.compute, s.network, used_together(s));
  played_ = other_pricer(s, pool, policy, plan.plan, *model_, recorder);
  if (drafter_passes(pool.serving.speculative, false) > 0) {
    drafter_ = std::make_unique<Drafter>(s, pool, *model_, *placement_);
  }
}

StepCost StepPrices::price(const StepAt& at, std::span<const RankBatch> ranks) {
  StepCost cost = pricer().price(at, ranks);
  if (drafter_ != nullptr) {
    const StepCost drafter = drafter_->price(at, ranks);
    if (recorder_ != nullptr) {
      recorder_->span({.layer = -1,
                       .part = LayerPart::kDrafter,
                       .gpus = pool_.parallelism.gpus,
                       .start = to_ticks(cost.total),
                       .duration = to_ticks(drafter.total)});
    }
    add_cost(cost, drafter);
  }
  return cost;
}

void StepPrices::set_conditions(const StepConditions& conditions) {
  pricer().set_conditions(conditions);
  if (drafter_ != nullptr) {
    drafter_->set_conditions(conditions);
  }
}

void StepPrices::place(const PlanInPlace& plan) {
  auto next = std::make_unique<Placement>(build_unlimited(pool_, plan));
  model_->set_placement(*next);
  if (drafter_ != nullptr) {
    drafter_->set_placement(*next);
  }
  placement_ = std::move(next);
}

}  // namespace epsim
