// Prices steps under a policy that acts in every layer: draws what the tokens ask for, lets the policy decide on it,
// and plays the step (step_player.h).
//
//   Models : experts where a plan without copies has them; the true routing and the predicted one kept apart; prices of the same models
//            as for placement policies. All-gather dispatch and reduce-scatter combine are priced for ranks padded to
//            the largest, as engines pad them. Copies run at a measured share of the port's rate; a GPU's copies take
//            as long as its own port or the busiest of their sources' ports needs. An exchange and a copy beside each
//            other have half of the port each. Copies from the host's memory have each GPU's own link to it, and no
//            port.
//   Ignores: what the policy's own decisions would cost on a slower host (planning time is declared).
#pragma once

#include <vector>

#include "models/step/step_model.h"
#include "policies/step_policy.h"
#include "sim/core/rng.h"
#include "sim/domain/load_window.h"
#include "sim/scenario/execution_options.h"
#include "sim/scenario/step_policy_run.h"
#include "sim/step/decision_work.h"
#include "sim/step/step_player.h"

namespace epsim {

class PolicyPricer final : public StepPricer {
 public:
  // Keeps references to `model`, `policy` and `stale`: the loads that wrong predictions follow.
  PolicyPricer(StepModel& model, const StepPolicy& policy, const ClusterSpec& cluster,
               const ExecutionOptions& execution, const StepPolicyRun& options, const PlacementPlan& plan,
               const LoadWindow& stale, Seed seed);

  StepCost price(const StepAt& at, std::span<const RankBatch> ranks) override;
  void set_conditions(const StepConditions& conditions) override { model_.set_conditions(conditions); }
  void record_to(StepRecorder* recorder) { recorder_ = recorder; }

 private:
  void decide(std::int64_t step, int l);
  void fill_layer(int l);
  Price tell() const;
  void price_exchanges();
  void price_copies();
  Price gather(CollectiveKind kind, Bytes row) const;

  StepModel& model_;
  const StepPolicy& policy_;
  ClusterSpec cluster_;
  StepPolicyRun options_;
  ExecutionProfile profile_;
  const LoadWindow& stale_;
  Seed seed_;
  std::vector<Residency> home_;  // [layer]
  DecisionReader reader_;
  StepPlayer player_;
  StepRecorder* recorder_ = nullptr;
  // Scratch of one layer, and of one step.
  std::vector<std::int64_t> gpu_tokens_;
  DecisionWork work_;
  bool planned_ = true;
  MoeLayerCost layer_;
  std::vector<TickCost> shared_;  // [DP rank]
  PriceRow first_, then_, copy_;  // [GPU]
};

}  // namespace epsim
