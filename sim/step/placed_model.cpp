#include "sim/step/placed_model.h"

namespace epsim {

Placement build_unlimited(const Scenario& s, const PlanInPlace& plan) {
  return Placement::build(plan.plan, shape_of(s.cluster), Bytes(0), Bytes(0), plan.shares, s.parallelism.moe_tp);
}

PlacedModel::PlacedModel(const Scenario& scenario, const PolicyChoice& policy, const PlanInPlace& plan,
                         StepRecorder* recorder)
    : scenario_(scenario),
      placement_(std::make_unique<Placement>(build_unlimited(scenario, plan))),
      pricing_(price_steps(scenario, policy, *placement_, recorder)) {}

void PlacedModel::place(const PlanInPlace& plan) {
  auto next = std::make_unique<Placement>(build_unlimited(scenario_, plan));
  pricing_.model->set_placement(*next);
  placement_ = std::move(next);
}

}  // namespace epsim
