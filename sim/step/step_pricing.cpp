#include "sim/step/step_pricing.h"

#include "sim/step/event_pricer.h"
#include "sim/step/policy_pricer.h"

namespace epsim {
namespace {

// What prices the steps instead of the model's closed form, where something overlaps or the scenario asks for events;
// else null.
std::unique_ptr<StepPricer> other_pricer(const Scenario& s, const PolicyChoice& policy, StepModel& model,
                                         StepRecorder* recorder) {
  if (policy.per_step != nullptr) {
    auto pricer = std::make_unique<PolicyPricer>(model, *policy.per_step, s.cluster, s.execution, policy.step_run,
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

StepPricing price_steps(const Scenario& s, const PolicyChoice& policy, const Placement& placement,
                        StepRecorder* recorder) {
  const LoadSource& loads = policy.perfect_balance ? *s.balanced_loads : *s.loads;
  StepPricing out;
  out.model = std::make_unique<StepModel>(s.model, s.cluster, s.parallelism, s.dispatch, placement, loads, s.compute,
                                          s.network);
  out.played = other_pricer(s, policy, *out.model, recorder);
  return out;
}

}  // namespace epsim
