#include "sim/step/step_prices.h"

#include "sim/step/event_pricer.h"
#include "sim/step/policy_pricer.h"

namespace epsim {
namespace {

// What prices the steps instead of the model's closed form, where something overlaps or the scenario asks for events;
// else null.
std::unique_ptr<StepPricer> other_pricer(const Scenario& s, const InstancePool& pool, const PolicyChoice& policy,
                                         StepModel& model, StepRecorder* recorder) {
  if (policy.per_step != nullptr) {
    auto pricer = std::make_unique<PolicyPricer>(model, *policy.per_step, pool.cluster, s.execution, policy.step_run,
                                                 s.plan_window, s.seed);
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
    : pool_(pool), placement_(std::make_unique<Placement>(build_unlimited(pool, plan))) {
  const ExpertLoadSource& loads = policy.ceiling == Ceiling::kPerfectBalance ? *s.balanced_loads : *s.loads;
  model_ = std::make_unique<StepModel>(s.model, pool.cluster, pool.parallelism, pool.dispatch, *placement_, loads,
                                       s.compute, s.network);
  played_ = other_pricer(s, pool, policy, *model_, recorder);
}

void StepPrices::place(const PlanInPlace& plan) {
  auto next = std::make_unique<Placement>(build_unlimited(pool_, plan));
  model_->set_placement(*next);
  placement_ = std::move(next);
}

}  // namespace epsim
