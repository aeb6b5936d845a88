// Plans that a policy makes again while the run goes on: when it looks, what it decides, and how the weights get there.
//
//   Models  : loads of the latest steps (never of one to come); a rule that says when to look and whether a new plan is
//             worth it; planning time; weights that move over the real links, layer by layer (migration_cost.h).
//             sync: no step begins until the plan is made and the weights of its chunk of layers are there; what passed
//             while the instance had nothing to do costs nothing. async: planning and moving go on beside the steps and
//             between them. While tokens are exchanged, or GPUs add up what they computed, weights have `link_share` of
//             every link and the step the rest; at all other times weights have the links to themselves. A layer takes
//             the new plan with the first step that begins after its weights arrived, and frees the buffer that they are
//             in: where there are buffers of few layers, the next ones wait for it.
//   Gained  : every step from the first switch on is priced with the first plan as well, and with the plan that the
//             present one replaced. Lost: waiting, and what steps took longer beside transfers (layer part
//             `migration`). When GPUs go or come back, what they left stands in the place of the first plan.
//             With GPUs lost, new plans are made for those that are left, as SGLang's elasticity_aware does, whatever
//             the policy.
//   Ignores : gathering the loads from all ranks; layers that could switch within a step; host time that planning takes
//             from serving. Under two-batch overlap only the exchange that is not hidden counts as exchange.
//   Source  : SGLang's EPLBManager (looks every so many passes at the end of one, blocks before the next, chunks of
//             layers); vLLM's eplb_state.py (window, asynchronous transfer layer by layer through a buffer of one
//             layer).
//
// It keeps no clock: the caller says what time it is, asks when the plan or the layer under way will be there, and comes
// back then (on_arrival).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/cluster/expert_recovery.h"
#include "sim/cluster/load_history.h"
#include "sim/cluster/rebalance_report.h"
#include "sim/step/migration_cost.h"
#include "sim/step/step_prices.h"

namespace epsim {

class Rebalancer {
 public:
  // `policy` has `rebalance` set. `in_place` is the plan that `live` prices, both of which the rebalancer changes;
  // everything outlives it.
  Rebalancer(const Scenario& scenario, const InstancePool& pool, const PolicyChoice& policy, PlanInPlace& in_place,
             StepPrices& live, const ExpertRecovery& recovery);
  ~Rebalancer();

  // A step begins: layers whose weights have arrived take the new plan.
  void begin_step(Ticks now);
  // The step that has begun, priced alone. Counts what the plans gain; the result is what the step takes longer because
  // weights move beside it.
  StepCost run_beside(const StepAt& at, std::span<const RankBatch> ranks, const StepCost& alone);
  // It has ended. Looks at the loads when the rule says so.
  void end_step(Ticks now);

  // When the plan is made, or the layer under way has moved, if nothing changes; none where nothing is under way.
  std::optional<Ticks> next_arrival() const;
  void on_arrival(Ticks now);
  // sync: no step may begin before the next arrival.
  bool holds_steps() const;
  // What a step that begins now has waited for since `due`.
  StepCost waited(Ticks due, Ticks now);

  void set_conditions(const StepConditions& conditions);
  // GPUs went or came back, and the plan in place with them: what was under way is dropped.
  void drop();

  // The loads of the latest steps, or what the run was planned from where there was no step yet.
  LoadWindow window() const;
  const RebalanceReport& report() const { return report_; }

 private:
  struct Migration;
  // What the rule is told of the steps since it last looked.
  struct SinceLook {
    std::int64_t steps = 0;
    Seconds time{}, experts{}, exchange{};
  };
  // A stretch of planning or moving while steps were held.
  struct Held {
    Ticks from, to;
    LayerPart part;
    Origin origin;
  };

  bool weights_on_the_way() const;
  void pass(Ticks now);
  void place_arrived(Ticks now);
  void begin_to_serve(std::size_t event);
  Ticks still_to_move() const;
  void compare(const StepAt& at, std::span<const RankBatch> ranks, const StepCost& cost);
  void observe(const StepAt& at, std::span<const RankBatch> ranks, const StepCost& cost);
  std::size_t chunk_end(std::size_t placed) const;
  void look(Ticks now);
  PlanInPlace plan_again(const LoadWindow& window) const;
  std::optional<std::vector<std::size_t>> order_that_fits(const PlacementPlan& next) const;
  RebalanceOutcome judge(const Migration& migration, const RebalanceEvent& event) const;
  std::unique_ptr<StepPrices> shadow(const StepConditions& conditions) const;
  StepConditions beside_transfers() const;
  RebalanceEvent& event_of(const Migration& migration);
  std::size_t layers() const { return in_place_.plan.layers.size(); }

  const Scenario& scenario_;
  const InstancePool& pool_;
  const PolicyChoice& policy_;
  const RebalanceOptions& options_;
  PlanInPlace& in_place_;
  StepPrices& live_;
  const ExpertRecovery& recovery_;
  std::int64_t most_resident_;  // experts on a GPU, over all layers, that the first plan left memory for
  std::int64_t buffered_;       // of its fullest layer, which there is a buffer for
  MigrationCost moves_;
  // Price the same steps: with the first plan; with the one that the present one replaced, where that is not the first;
  // and with the present one beside transfers.
  std::unique_ptr<StepPrices> first_, replaced_, slowed_;
  StepConditions conditions_;
  std::unique_ptr<Migration> migration_;
  std::optional<std::size_t> serving_;  // the event whose plan serves, at least in some layers
  RebalanceReport report_;
  LoadHistory history_;
  SinceLook since_look_;
  std::int64_t steps_ = 0;
  bool in_step_ = false;
  std::vector<Held> held_;     // since the last step
  double balance_before_ = 0;  // sum over layers and steps
  // Scratch of one step.
  std::vector<std::int64_t> tokens_, decodes_;
};

}  // namespace epsim
