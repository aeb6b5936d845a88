// Steps of a policy that plans again while the run goes on.
//
//   Models  : loads of the latest steps (never of one to come); a rule that says when to look and whether a new plan is
//             worth it; planning time; weights that move over the real links, layer by layer (weight_moves.h).
//             sync: the next step waits for the plan and for the weights of its chunk of layers, less what passed
//             while the instance had nothing to do. async: planning and moving go on beside the steps and between them.
//             While tokens are exchanged, weights have `link_share` of every link and tokens the rest; at all other
//             times weights have the links to themselves. A layer takes the new plan with the first step that begins
//             after its weights arrived.
//   Gained  : every step from the first switch on is priced with the first plan as well, and with the plan that the
//             present one replaced. Lost: waiting, and what steps took longer beside transfers (layer part
//             `migration`).
//             When GPUs go or come back, what they left stands in the place of the first plan.
//             With GPUs lost, new plans are made for those that are left, as SGLang's elasticity_aware does, whatever
//             the policy.
//   Ignores : gathering the loads from all ranks; layers that could switch within a step; host time that planning takes
//             from serving. Under two-batch overlap only the exchange that is not hidden counts as exchange.
//   Source  : SGLang's EPLBManager (looks every so many passes, blocks between two of them, chunks of layers); vLLM's
//             eplb_state.py (window, asynchronous transfer layer by layer through a buffer of one layer).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/cluster/load_history.h"
#include "sim/cluster/rebalance_report.h"
#include "sim/cluster/regroup.h"
#include "sim/step/placed_model.h"
#include "sim/step/weight_moves.h"

namespace epsim {

class RebalancingPricer final : public StepPricer {
 public:
  // `policy` has `rebalance` set; scenario and policy outlive the pricer. `first` is the plan that the run starts with.
  RebalancingPricer(const Scenario& scenario, const PolicyChoice& policy, PlanInPlace first, StepRecorder* recorder);
  ~RebalancingPricer() override;

  StepCost price(const StepAt& at, std::span<const RankBatch> ranks) override;
  void set_conditions(const StepConditions& conditions) override;

  // These EP ranks are gone from now on (regroup.h); for how long the instance stands still, none where it cannot go
  // on. What was under way is dropped.
  std::optional<Ticks> regroup(const LostGpus& lost, const StepConditions& conditions);
  const RegroupReport& regroup_report() const { return regrouper_.report(); }

  // Of all steps, whatever plan they ran with.
  StepModel& model() { return live_.model(); }
  const RebalanceReport& report() const { return report_; }

 private:
  struct Migration;
  // What the rule is told of the steps since it last looked.
  struct SinceLook {
    std::int64_t steps = 0;
    Seconds time{}, experts{}, exchange{};
  };

  void advance_to(Ticks now);
  void progress(Ticks time, std::size_t last_layer, StepSum& sum);
  void arrive();
  void wait(StepSum& sum);
  void place_arrived();
  void begin_to_serve(std::size_t event);
  void run_beside(const StepAt& at, std::span<const RankBatch> ranks, const StepCost& alone, StepSum& sum);
  Ticks still_to_move() const;
  void compare(const StepAt& at, std::span<const RankBatch> ranks, const StepCost& cost);
  void observe(const StepAt& at, std::span<const RankBatch> ranks, const StepCost& cost);
  bool due() const;
  void look();
  PlanInPlace plan_again(const LoadWindow& window) const;
  bool fits(const PlacementPlan& next) const;
  RebalanceOutcome judge(const Migration& migration, const RebalanceEvent& event) const;
  std::unique_ptr<PlacedModel> shadow(const StepConditions& conditions) const;
  StepConditions beside_transfers() const;
  RebalanceEvent& event_of(const Migration& migration);
  std::size_t layers() const { return in_place_.plan.layers.size(); }

  const Scenario& scenario_;
  const PolicyChoice& policy_;
  PlanInPlace in_place_;
  Regrouper regrouper_;
  std::int64_t most_resident_;  // experts on a GPU, over all layers, that the first plan left memory for
  WeightMoves moves_;
  PlacedModel live_;
  // Price the same steps: with the first plan; with the one that the present one replaced, where that is not the first;
  // and with the present one beside transfers.
  std::unique_ptr<PlacedModel> first_, replaced_, slowed_;
  StepConditions conditions_;
  std::unique_ptr<Migration> migration_;
  std::optional<std::size_t> serving_;  // the event whose plan serves, at least in some layers
  RebalanceReport report_;
  LoadHistory history_;
  SinceLook since_look_;
  std::int64_t steps_ = 0;
  Ticks now_{}, ended_{};      // start of the step at hand, end of the last one
  double balance_before_ = 0;  // sum over layers and steps
  // Scratch of one step.
  StepLoads loads_;
  std::vector<std::int64_t> tokens_, decodes_;
};

}  // namespace epsim
