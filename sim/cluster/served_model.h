// The model of an instance that serves a scenario under a policy: plan, prices, recovery of experts, and planning again.
#pragma once

#include <memory>
#include <optional>

#include "sim/cluster/expert_recovery.h"
#include "sim/cluster/instance_model.h"
#include "sim/cluster/prepare.h"
#include "sim/cluster/rebalancer.h"
#include "sim/step/step_prices.h"

namespace epsim {

class ServedModel final : public InstanceModel {
 public:
  // Arguments outlive it; a recorder may be null.
  ServedModel(const Scenario& scenario, const PreparedInstance& prepared, StepRecorder* recorder);
  ServedModel(const ServedModel&) = delete;  // its parts refer to each other
  ServedModel& operator=(const ServedModel&) = delete;

  StepCost price(const StepAt& at, std::span<const RankBatch> ranks) override;
  void set_conditions(const StepConditions& conditions) override;
  std::optional<Ticks> recover(const HardwareChange& change) override;
  void end_step(Ticks now) override;
  std::optional<Ticks> next_arrival() const override;
  void on_arrival(Ticks now) override;
  bool holds_steps() const override;
  StepCost waited(Ticks due, Ticks now) override;

  StepModel& steps() { return prices_.model(); }
  RebalanceReport rebalance() const { return rebalancer_ ? rebalancer_->report() : RebalanceReport{}; }
  const RegroupReport& recovery() const { return recovery_.report(); }

 private:
  const Scenario& scenario_;
  const PreparedInstance& prepared_;
  PlanInPlace plan_;
  StepPrices prices_;
  ExpertRecovery recovery_;
  std::optional<Rebalancer> rebalancer_;
};

}  // namespace epsim
