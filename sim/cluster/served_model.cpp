#include "sim/cluster/served_model.h"

namespace epsim {

ServedModel::ServedModel(const Scenario& scenario, const PreparedInstance& prepared, StepRecorder* recorder)
    : scenario_(scenario),
      prepared_(prepared),
      plan_{prepared.plan, prepared.shares},
      prices_(scenario, prepared.pool, prepared.policy, plan_, recorder),
      recovery_(scenario, prepared.pool, prepared.plan) {
  if (prepared.policy.rebalance != nullptr) {
    rebalancer_.emplace(scenario, prepared.pool, prepared.policy, plan_, prices_, recovery_);
  }
}

StepCost ServedModel::price(const StepAt& at, std::span<const RankBatch> ranks) {
  if (rebalancer_) {
    rebalancer_->begin_step(at.start);
  }
  StepCost cost = prices_.price(at, ranks);
  if (rebalancer_) {
    add_cost(cost, rebalancer_->run_beside(at, ranks, cost));
  }
  return cost;
}

void ServedModel::set_conditions(const StepConditions& conditions) {
  prices_.set_conditions(conditions);
  if (rebalancer_) {
    rebalancer_->set_conditions(conditions);
  }
}

std::optional<Ticks> ServedModel::recover(const HardwareChange& change) {
  const PolicyChoice& policy = prepared_.policy;
  if (rebalancer_) {
    rebalancer_->drop();
  }
  const LoadWindow window = rebalancer_ ? rebalancer_->window() : planning_window(scenario_, policy);
  const std::optional<Ticks> still =
      recovery_.recover(plan_.plan, change.lost, window, change.conditions, steps().stats().link_bytes());
  if (!still) {
    return std::nullopt;
  }
  if (policy.replica_choice != nullptr) {
    plan_.shares = choose_replicas(*policy.replica_choice, plan_.plan, window,
                                   prepared_.pool.parallelism.ep_shape(shape_of(prepared_.pool.cluster)));
  }
  prices_.place(plan_);
  return still;
}

void ServedModel::end_step(Ticks now) {
  if (rebalancer_) {
    rebalancer_->end_step(now);
  }
}

std::optional<Ticks> ServedModel::next_arrival() const {
  return rebalancer_ ? rebalancer_->next_arrival() : std::nullopt;
}

void ServedModel::on_arrival(Ticks now) { rebalancer_->on_arrival(now); }

bool ServedModel::holds_steps() const { return rebalancer_ && rebalancer_->holds_steps(); }

StepCost ServedModel::waited(Ticks due, Ticks now) { return rebalancer_ ? rebalancer_->waited(due, now) : StepCost{}; }

}  // namespace epsim
