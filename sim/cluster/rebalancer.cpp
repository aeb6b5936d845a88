#include "sim/cluster/rebalancer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/core/check.h"
#include "sim/step/step_account.h"

namespace epsim {
namespace {

constexpr Ticks kForever{std::numeric_limits<std::int64_t>::max()};

Seconds part(const StepCost& cost, LayerPart which) { return cost.by_part[static_cast<std::size_t>(which)]; }

Seconds exchange_of(const StepCost& cost) { return part(cost, LayerPart::kDispatch) + part(cost, LayerPart::kCombine); }

// Where most of a step's time has its price from.
Origin main_origin(const StepCost& cost) {
  return static_cast<Origin>(std::max_element(cost.by_origin.begin(), cost.by_origin.end()) - cost.by_origin.begin());
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

bool same_layout(const PlacementPlan& a, const PlacementPlan& b) {
  return std::equal(
      a.layers.begin(), a.layers.end(), b.layers.begin(), b.layers.end(),
      [](const LayerPlan& x, const LayerPlan& y) { return x.slots == y.slots && x.first_slot == y.first_slot; });
}

}  // namespace

// A plan that was made, and what is still to pass before it serves. A plan that was not taken has no moves.
struct RebalancingPricer::Migration {
  std::size_t event = 0;
  PlanInPlace next;
  Ticks planning{};              // still to pass
  std::vector<LayerMove> moves;  // [layer]
  Ticks left{};                  // of the move of layer `arrived`
  std::size_t arrived = 0;       // layers whose weights are all there
  std::size_t placed = 0;        // of these, layers that have the new plan
  std::size_t chunk_end = 0;     // sync: layers that the next step waits for

  bool moving() const { return planning == Ticks{} && arrived < moves.size(); }
  bool over() const { return planning == Ticks{} && placed == moves.size(); }
};

RebalancingPricer::RebalancingPricer(const Scenario& scenario, const PolicyChoice& policy, PlanInPlace first,
                                     StepRecorder* recorder)
    : scenario_(scenario),
      policy_(policy),
      in_place_(std::move(first)),
      regrouper_(scenario, in_place_.plan),
      most_resident_(build_unlimited(scenario, in_place_).max_resident()),
      moves_(scenario.model, scenario.cluster, scenario.parallelism.moe_tp, scenario.network, scenario.dispatch.network,
             policy.rebalance->move_efficiency),
      live_(scenario, policy, in_place_, recorder),
      history_(scenario.model.moe_layers(), scenario.model.experts, policy.rebalance->window),
      tokens_(static_cast<std::size_t>(scenario.parallelism.dp_ranks())),
      decodes_(tokens_.size()) {
  report_.active = true;
}

RebalancingPricer::~RebalancingPricer() = default;

RebalanceEvent& RebalancingPricer::event_of(const Migration& migration) { return report_.events[migration.event]; }

// The instance stood still until `now`: what is under way went on, with the links to itself.
void RebalancingPricer::advance_to(Ticks now) {
  if (migration_ != nullptr && now > ended_) {
    StepSum unseen;
    progress(now - ended_, policy_.rebalance->background ? layers() : migration_->chunk_end, unseen);
    report_.idle_moving += to_ticks(unseen.cost().by_part[static_cast<std::size_t>(LayerPart::kMigration)]);
  }
  now_ = now;
}

StepCost RebalancingPricer::price(const StepAt& at, std::span<const RankBatch> ranks) {
  advance_to(at.start);
  StepSum besides;
  wait(besides);
  place_arrived();
  StepCost cost = live_.price(at, ranks);
  compare(at, ranks, cost);
  observe(at, ranks, cost);
  run_beside(at, ranks, cost, besides);
  add_cost(cost, besides.cost());
  ++steps_;
  ended_ = now_ + to_ticks(cost.total);
  now_ = ended_;
  if (migration_ == nullptr && due()) {
    look();
  }
  return cost;
}

// Lets `time` pass for the plan under way: planning first, then weights up to layer `last_layer`. `sum` is told what
// passed.
void RebalancingPricer::progress(Ticks time, std::size_t last_layer, StepSum& sum) {
  Migration& m = *migration_;
  const Ticks planned = std::min(time, m.planning);
  m.planning -= planned;
  time -= planned;
  sum.add(LayerPart::kPlanning, {planned, Origin::kDeclared});
  while (m.moving() && m.arrived < last_layer) {
    const Ticks moved = std::min(time, m.left);
    m.left -= moved;
    time -= moved;
    sum.add(LayerPart::kMigration, {moved, m.moves[m.arrived].price.origin});
    if (m.left > Ticks{}) {
      return;
    }
    arrive();
  }
}

void RebalancingPricer::arrive() {
  Migration& m = *migration_;
  const LayerMove& move = m.moves[m.arrived];
  moves_.count(move, live_.model().tally().link_bytes());
  RebalanceEvent& event = event_of(m);
  event.moved_copies += std::ssize(move.copies) / scenario_.parallelism.moe_tp;
  event.moved += moves_.expert_bytes() * static_cast<double>(move.copies.size());
  ++m.arrived;
  m.left = m.arrived < m.moves.size() ? m.moves[m.arrived].price.time : Ticks{};
}

// sync: what the step that comes now waits for.
void RebalancingPricer::wait(StepSum& sum) {
  if (migration_ == nullptr || policy_.rebalance->background) {
    return;
  }
  StepSum waited;
  progress(kForever, migration_->chunk_end, waited);
  const StepCost cost = waited.cost();
  RebalanceEvent& event = event_of(*migration_);
  event.planning += to_ticks(part(cost, LayerPart::kPlanning));
  event.moving += to_ticks(part(cost, LayerPart::kMigration));
  sum = waited;
}

// Layers whose weights have arrived take the new plan.
void RebalancingPricer::place_arrived() {
  if (migration_ == nullptr) {
    return;
  }
  Migration& m = *migration_;
  if (m.placed < m.arrived) {
    if (m.placed == 0) {
      begin_to_serve(m.event);
    }
    for (std::size_t l = m.placed; l < m.arrived; ++l) {
      in_place_.plan.layers[l] = m.next.plan.layers[l];
      if (!m.next.shares.empty()) {
        in_place_.shares[l] = m.next.shares[l];
      }
    }
    m.placed = m.arrived;
    live_.place(in_place_);
    if (slowed_ != nullptr) {
      slowed_->place(in_place_);
    }
  }
  const auto chunk = static_cast<std::size_t>(policy_.rebalance->layers_per_chunk);
  m.chunk_end = std::min(layers(), m.placed + (chunk == 0 ? layers() : chunk));
  if (m.over()) {
    if (!m.moves.empty()) {
      event_of(m).in_effect = now_;
    }
    migration_.reset();
  }
}

void RebalancingPricer::begin_to_serve(std::size_t event) {
  if (first_ == nullptr) {
    first_ = shadow(conditions_);
  } else {
    replaced_ = shadow(conditions_);
  }
  serving_ = event;
}

std::unique_ptr<PlacedModel> RebalancingPricer::shadow(const StepConditions& conditions) const {
  auto out = std::make_unique<PlacedModel>(scenario_, policy_, in_place_, nullptr);
  out->set_conditions(conditions);
  return out;
}

Ticks RebalancingPricer::still_to_move() const {
  Ticks sum = migration_->left;
  for (std::size_t l = migration_->arrived + 1; l < migration_->moves.size(); ++l) {
    sum += migration_->moves[l].price.time;
  }
  return sum;
}

// async: what goes on beside a step, and by how much the step takes longer for that. The step that `alone` prices is
// stretched evenly over the part of it that has transfers beside.
void RebalancingPricer::run_beside(const StepAt& at, std::span<const RankBatch> ranks, const StepCost& alone,
                                   StepSum& sum) {
  if (migration_ == nullptr || !policy_.rebalance->background) {
    return;
  }
  StepSum unseen;
  const Ticks length = to_ticks(alone.total), planning = std::min(length, migration_->planning);
  progress(planning, layers(), unseen);
  if (!migration_->moving() || planning == length) {
    return;
  }
  if (slowed_ == nullptr) {
    slowed_ = shadow(beside_transfers());
  }
  const StepCost slow = slowed_->price(at, ranks);
  const Seconds moved_in_step = slow.total - exchange_of(slow) * (1 - policy_.rebalance->link_share);
  const double free_part = 1.0 - to_seconds(planning) / to_seconds(length);
  const Seconds to_move = to_seconds(still_to_move());
  const double part_used = std::min(free_part, to_move / moved_in_step);
  const Ticks longer = to_ticks(std::max(Seconds{}, (slow.total - alone.total) * part_used));
  progress(part_used < free_part ? kForever : to_ticks(moved_in_step * part_used), layers(), unseen);
  sum.add(LayerPart::kMigration, {longer, main_origin(slow)});
  event_of(*migration_).slowed += longer;
}

// What the step would have taken with the plans that this one stands in the place of.
void RebalancingPricer::compare(const StepAt& at, std::span<const RankBatch> ranks, const StepCost& cost) {
  if (!serving_) {
    return;
  }
  const Ticks now = to_ticks(cost.total), first = to_ticks(first_->price(at, ranks).total);
  const Ticks replaced = replaced_ != nullptr ? to_ticks(replaced_->price(at, ranks).total) : first;
  report_.gained += first - now;
  report_.events[*serving_].gained += replaced - now;
}

void RebalancingPricer::observe(const StepAt& at, std::span<const RankBatch> ranks, const StepCost& cost) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    tokens_[r] = ranks[r].tokens();
    decodes_[r] = ranks[r].decode_tokens;
  }
  scenario_.loads->draw_mixed(at, tokens_, decodes_, loads_);
  double balance = 0;
  for (const LayerTotals& layer : live_.model().totals().layers) {
    balance += layer.balancedness_sum;
  }
  history_.add(loads_, tokens_, (balance - balance_before_) / static_cast<double>(layers()));
  balance_before_ = balance;
  ++since_look_.steps;
  since_look_.time += cost.total;
  since_look_.experts += part(cost, LayerPart::kExperts);
  since_look_.exchange += exchange_of(cost);
}

bool RebalancingPricer::due() const {
  return policy_.rebalance->rule->due({since_look_.steps, history_.balancedness(since_look_.steps)});
}

PlanInPlace RebalancingPricer::plan_again(const LoadWindow& window) const {
  const ClusterShape shape = scenario_.parallelism.ep_shape(shape_of(scenario_.cluster));
  const LostGpus& lost = regrouper_.lost();
  const bool whole = std::find(lost.begin(), lost.end(), true) == lost.end();
  PlanInPlace out{
      whole ? policy_.placement->plan(window, shape) : plan_for_left(regrouper_.first(), lost, window).value(), {}};
  out.plan.policy = policy_.label;
  if (policy_.rebalance->keep) {
    out.plan = keep_in_place(out.plan, in_place_.plan, shape.gpus_per_node, *policy_.rebalance->keep);
  }
  if (policy_.replica_choice != nullptr) {
    out.shares = choose_replicas(*policy_.replica_choice, out.plan, window, shape);
  }
  return out;
}

std::optional<Ticks> RebalancingPricer::regroup(const LostGpus& lost, const StepConditions& conditions) {
  if (migration_ != nullptr && !migration_->moves.empty()) {
    event_of(*migration_).outcome = RebalanceOutcome::kCutShort;
  }
  migration_.reset();
  const LoadWindow window = steps_ > 0 ? history_.window() : scenario_.plan_window;
  const std::optional<Ticks> still =
      regrouper_.regroup(in_place_.plan, lost, window, conditions, live_.model().tally().link_bytes());
  if (!still) {
    return std::nullopt;
  }
  if (policy_.replica_choice != nullptr) {
    const ClusterShape shape = scenario_.parallelism.ep_shape(shape_of(scenario_.cluster));
    in_place_.shares = choose_replicas(*policy_.replica_choice, in_place_.plan, window, shape);
  }
  live_.place(in_place_);
  for (std::unique_ptr<PlacedModel>* shadow : {&first_, &replaced_, &slowed_}) {
    shadow->reset();
  }
  serving_.reset();
  return still;
}

// Layer by layer no GPU may hold more experts than the first plan left memory for.
bool RebalancingPricer::fits(const PlacementPlan& next) const {
  for (std::size_t g = 0; g < static_cast<std::size_t>(next.gpus); ++g) {
    const auto slots = [g](const LayerPlan& layer) { return layer.first_slot[g + 1] - layer.first_slot[g]; };
    std::int64_t resident = 0, most = 0;
    for (const LayerPlan& layer : in_place_.plan.layers) {
      resident += slots(layer);
    }
    for (std::size_t l = 0; l < layers(); ++l) {
      resident += slots(next.layers[l]) - slots(in_place_.plan.layers[l]);
      most = std::max(most, resident);
    }
    if (most > most_resident_) {
      return false;
    }
  }
  return true;
}

// The rule's view: experts' time goes with the busiest GPU, the rest of a step stays as it is.
RebalanceOutcome RebalancingPricer::judge(const Migration& migration, const RebalanceEvent& event) const {
  if (same_layout(migration.next.plan, in_place_.plan)) {
    return RebalanceOutcome::kUnchanged;
  }
  if (!fits(migration.next.plan)) {
    return RebalanceOutcome::kDidNotFit;
  }
  const auto steps = static_cast<double>(since_look_.steps);
  const Seconds step = since_look_.time / steps, experts = since_look_.experts / steps;
  Seconds switching = to_seconds(migration.planning + event.transfer);
  if (policy_.rebalance->background) {
    const double exchange = since_look_.exchange / since_look_.time;
    switching = to_seconds(event.transfer) * exchange / (1 - policy_.rebalance->link_share);
  }
  const RebalanceOffer offer{step, step - experts + expert_time_at(experts, event.balancedness, event.planned),
                             switching};
  return policy_.rebalance->rule->accept(offer) ? RebalanceOutcome::kTaken : RebalanceOutcome::kTurnedDown;
}

void RebalancingPricer::look() {
  const LoadWindow window = history_.window();
  auto migration = std::make_unique<Migration>();
  Migration& m = *migration;
  m.event = report_.events.size();
  m.next = plan_again(window);
  m.planning = to_ticks(policy_.rebalance->planning_time);
  m.moves = moves_.plan(m.next.plan, in_place_.plan, conditions_);
  RebalanceEvent event;
  event.step = steps_;
  event.at = ended_;
  event.balancedness = history_.balancedness(since_look_.steps);
  event.planned = mean(balancedness_by_layer(build_unlimited(scenario_, m.next), window));
  event.transfer = std::accumulate(m.moves.begin(), m.moves.end(), Ticks{},
                                   [](Ticks sum, const LayerMove& move) { return sum + move.price.time; });
  event.outcome = judge(m, event);
  if (event.outcome != RebalanceOutcome::kTaken) {
    m.moves.clear();
  }
  m.left = m.moves.empty() ? Ticks{} : m.moves.front().price.time;
  const auto chunk = static_cast<std::size_t>(policy_.rebalance->layers_per_chunk);
  m.chunk_end = chunk == 0 ? layers() : std::min(layers(), chunk);
  report_.events.push_back(event);
  since_look_ = {};
  migration_ = std::move(migration);
}

// Exchanges have what transfers leave of every link.
StepConditions RebalancingPricer::beside_transfers() const {
  StepConditions out = conditions_;
  out.link_speed.resize(static_cast<std::size_t>(scenario_.cluster.gpus()), 1.0);
  for (double& speed : out.link_speed) {
    speed *= 1 - policy_.rebalance->link_share;
  }
  return out;
}

void RebalancingPricer::set_conditions(const StepConditions& conditions) {
  conditions_ = conditions;
  live_.set_conditions(conditions);
  for (PlacedModel* model : {first_.get(), replaced_.get()}) {
    if (model != nullptr) {
      model->set_conditions(conditions);
    }
  }
  if (slowed_ != nullptr) {
    slowed_->set_conditions(beside_transfers());
  }
}

}  // namespace epsim
