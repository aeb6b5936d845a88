#include "sim/cluster/rebalancer.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/core/check.h"
#include "sim/core/mapped.h"

namespace epsim {
namespace {

Seconds part(const StepCost& cost, LayerPart which) { return cost.by_part[static_cast<std::size_t>(which)]; }

Seconds exchange_of(const StepCost& cost) { return part(cost, LayerPart::kDispatch) + part(cost, LayerPart::kCombine); }

// How long a step beside transfers, which take `share` of every link, has the links busy itself: its exchange, and the
// ranks' collectives inside the other parts, which take 1 / (1 - share) of their time alone, while products take no longer.
Seconds on_links(const StepCost& beside, const StepCost& alone, double share) {
  const Seconds longer = (beside.total - exchange_of(beside)) - (alone.total - exchange_of(alone));
  return exchange_of(beside) + std::max(Seconds{}, longer) / share;
}

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

// Ascending.
std::vector<int> experts_on(const LayerPlan& layer, std::size_t gpu) {
  std::vector<int> out(layer.slots.begin() + layer.first_slot[gpu], layer.slots.begin() + layer.first_slot[gpu + 1]);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

// A plan that was made, and what is still to pass before it serves. A plan that was not taken has no moves.
struct Rebalancer::Migration {
  std::size_t event = 0;
  PlanInPlace next;
  Ticks planned{};  // when the plan is made
  bool planning = true;
  std::vector<std::size_t> order;  // of layers
  std::vector<LayerMove> moves;    // in that order
  std::size_t arrived = 0;         // layers whose weights are all there
  std::size_t placed = 0;          // of these, layers that have the new plan
  std::size_t chunk_end = 0;       // layers that may arrive before the next step begins
  // The move of layer `arrived`: what was left of it at `since`, with the links to itself, and the pace since then.
  Ticks left{}, since{};
  double pace = 1;

  bool moving() const { return !planning && arrived < moves.size(); }
  bool over() const { return !planning && placed == moves.size(); }
};

Rebalancer::Rebalancer(const Scenario& scenario, const InstancePool& pool, const PolicyChoice& policy,
                       PlanInPlace& in_place, StepPrices& live, const ExpertRecovery& recovery)
    : scenario_(scenario),
      pool_(pool),
      policy_(policy),
      options_(*policy.rebalance),
      in_place_(in_place),
      live_(live),
      recovery_(recovery),
      most_resident_(build_unlimited(pool, in_place).max_resident()),
      buffered_(in_place.plan.most_in_a_layer()),
      moves_(scenario.model, pool.cluster, pool.parallelism.moe_tp, scenario.network, pool.dispatch.network,
             options_.move_efficiency, options_.layer_time),
      history_(scenario.model.moe_layers(), scenario.model.experts, options_.window),
      tokens_(static_cast<std::size_t>(pool.parallelism.dp_ranks())),
      decodes_(tokens_.size()) {
  report_.active = true;
}

Rebalancer::~Rebalancer() = default;

RebalanceEvent& Rebalancer::event_of(const Migration& migration) { return report_.events[migration.event]; }

// sync: weights move between steps, up to the chunk's end. async: while there is room for what has not switched yet.
bool Rebalancer::weights_on_the_way() const {
  return migration_ != nullptr && migration_->moving() && migration_->arrived < migration_->chunk_end &&
         (options_.background || !in_step_);
}

// Brings the move under way up to `now`.
void Rebalancer::pass(Ticks now) {
  if (!weights_on_the_way()) {
    if (migration_ != nullptr) {
      migration_->since = now;
    }
    return;
  }
  Migration& m = *migration_;
  const Ticks moved = std::min(m.left, to_ticks(to_seconds(now - m.since) * m.pace));
  m.left -= moved;
  if (!in_step_ && moved > Ticks{}) {
    report_.idle_moving += moved;
    if (holds_steps()) {
      held_.push_back({m.since, now, LayerPart::kMigration, m.moves[m.arrived].price.origin});
    }
  }
  m.since = now;
}

std::optional<Ticks> Rebalancer::next_arrival() const {
  if (migration_ == nullptr) {
    return std::nullopt;
  }
  const Migration& m = *migration_;
  if (m.planning) {
    return m.planned;
  }
  if (!weights_on_the_way()) {
    return std::nullopt;
  }
  return m.since + (m.pace == 1 ? m.left : to_ticks(to_seconds(m.left) / m.pace));
}

bool Rebalancer::holds_steps() const {
  return migration_ != nullptr && !options_.background && (migration_->planning || weights_on_the_way());
}

void Rebalancer::on_arrival(Ticks now) {
  Migration& m = *migration_;
  if (m.planning) {
    if (!in_step_ && !options_.background) {
      held_.push_back({event_of(m).at, now, LayerPart::kPlanning, Origin::kDeclared});
    }
    m.planning = false;
    m.since = now;
    m.left = m.moves.empty() ? Ticks{} : m.moves.front().price.time;
    return;
  }
  pass(now);
  if (!in_step_ && m.left > Ticks{}) {  // what rounding left
    report_.idle_moving += m.left;
  }
  const LayerMove& move = m.moves[m.arrived];
  moves_.count(move, live_.model().stats().link_bytes());
  RebalanceEvent& event = event_of(m);
  event.moved_copies += std::ssize(move.copies) / pool_.parallelism.moe_tp;
  event.moved += moves_.expert_bytes() * static_cast<double>(move.copies.size());
  ++m.arrived;
  m.left = m.arrived < m.moves.size() ? m.moves[m.arrived].price.time : Ticks{};
}

StepCost Rebalancer::waited(Ticks due, Ticks now) {
  StepSum sum;
  for (const Held& h : held_) {
    const Ticks length = std::min(h.to, now) - std::max(h.from, due);
    if (length <= Ticks{}) {
      continue;
    }
    sum.add(h.part, {length, h.origin});
    RebalanceEvent& event = report_.events.back();
    if (h.part == LayerPart::kPlanning) {
      event.planning += length;
    } else {
      event.moving += length;
      report_.idle_moving -= length;
    }
  }
  return sum.cost();
}

void Rebalancer::begin_step(Ticks now) {
  pass(now);
  held_.clear();
  place_arrived(now);
  in_step_ = true;
}

void Rebalancer::end_step(Ticks now) {
  pass(now);
  in_step_ = false;
  if (migration_ != nullptr) {
    migration_->pace = 1;
    migration_->since = now;
  } else if (since_look_.steps >= options_.rule->interval()) {
    if (options_.rule->due(history_.balancedness(since_look_.steps))) {
      look(now);
    } else {
      since_look_ = {};
    }
  }
}

// Layers whose weights have arrived take the new plan.
void Rebalancer::place_arrived(Ticks now) {
  if (migration_ == nullptr) {
    return;
  }
  Migration& m = *migration_;
  if (m.placed < m.arrived) {
    if (m.placed == 0) {
      begin_to_serve(m.event);
    }
    for (std::size_t i = m.placed; i < m.arrived; ++i) {
      const std::size_t l = m.order[i];
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
  m.chunk_end = chunk_end(m.placed);
  if (m.over()) {
    if (!m.moves.empty()) {
      event_of(m).in_effect = now;
    }
    migration_.reset();
  }
}

void Rebalancer::begin_to_serve(std::size_t event) {
  if (first_ == nullptr) {
    first_ = shadow(conditions_);
  } else {
    replaced_ = shadow(conditions_);
  }
  serving_ = event;
}

std::unique_ptr<StepPrices> Rebalancer::shadow(const StepConditions& conditions) const {
  auto out = std::make_unique<StepPrices>(scenario_, pool_, policy_, in_place_, nullptr);
  out->model().share_draws(live_.model().draws());
  out->set_conditions(conditions);
  return out;
}

std::size_t Rebalancer::chunk_end(std::size_t placed) const {
  const auto chunk = static_cast<std::size_t>(options_.layers_per_chunk);
  return chunk == 0 ? layers() : std::min(layers(), placed + chunk);
}

// Before the next step.
Ticks Rebalancer::still_to_move() const {
  Ticks sum =
      migration_->planning && !migration_->moves.empty() ? migration_->moves.front().price.time : migration_->left;
  for (std::size_t i = migration_->arrived + 1; i < std::min(migration_->moves.size(), migration_->chunk_end); ++i) {
    sum += migration_->moves[i].price.time;
  }
  return sum;
}

// The step that `alone` prices is stretched evenly over the part of it that has transfers beside.
StepCost Rebalancer::run_beside(const StepAt& at, std::span<const RankBatch> ranks, const StepCost& alone) {
  compare(at, ranks, alone);
  observe(at, ranks, alone);
  ++steps_;
  const Ticks length = to_ticks(alone.total);
  if (migration_ == nullptr || !options_.background || migration_->arrived == migration_->moves.size()) {
    return {};
  }
  Migration& m = *migration_;
  const Ticks planning = m.planning ? std::min(length, m.planned - at.start) : Ticks{};
  if (planning == length) {
    return {};
  }
  if (slowed_ == nullptr) {
    slowed_ = shadow(beside_transfers());
  }
  const StepCost slow = slowed_->price(at, ranks);
  const Seconds moved_in_step = slow.total - on_links(slow, alone, options_.link_share) * (1 - options_.link_share);
  const double free_part = 1.0 - to_seconds(planning) / to_seconds(length);
  const double part_used = std::min(free_part, to_seconds(still_to_move()) / moved_in_step);
  const Ticks longer = to_ticks(std::max(Seconds{}, (slow.total - alone.total) * part_used));
  m.pace = moved_in_step / slow.total;
  event_of(m).slowed += longer;
  StepSum sum;
  sum.add(LayerPart::kMigration, {longer, main_origin(slow)});
  return sum.cost();
}

// What the step would have taken with the plans that this one stands in the place of.
void Rebalancer::compare(const StepAt& at, std::span<const RankBatch> ranks, const StepCost& cost) {
  if (!serving_) {
    return;
  }
  const Ticks now = to_ticks(cost.total), first = to_ticks(first_->price(at, ranks).total);
  const Ticks replaced = replaced_ != nullptr ? to_ticks(replaced_->price(at, ranks).total) : first;
  report_.gained += first - now;
  report_.events[*serving_].gained += replaced - now;
}

void Rebalancer::observe(const StepAt& at, std::span<const RankBatch> ranks, const StepCost& cost) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    tokens_[r] = ranks[r].routed_tokens();
    decodes_[r] = ranks[r].routed_decodes();
  }
  double balance = 0;
  for (const LayerTotals& layer : live_.model().totals().layers) {
    balance += layer.balancedness_sum;
  }
  history_.add(live_.model().draws()->draw(at, tokens_, decodes_), tokens_,
               (balance - balance_before_) / static_cast<double>(layers()));
  balance_before_ = balance;
  ++since_look_.steps;
  since_look_.time += cost.total;
  since_look_.experts += part(cost, LayerPart::kExperts);
  since_look_.exchange += exchange_of(cost);
}

PlanInPlace Rebalancer::plan_again(const LoadWindow& window) const {
  const ClusterShape shape = pool_.parallelism.ep_shape(shape_of(pool_.cluster));
  const LostGpus& lost = recovery_.lost();
  const bool whole = std::find(lost.begin(), lost.end(), true) == lost.end();
  PlanInPlace out{whole ? policy_.placement->replan(window, shape, in_place_.plan)
                        : plan_for_left(recovery_.first(), lost, window).value(),
                  {}};
  out.plan.policy = policy_.label;
  if (options_.keep) {
    out.plan = keep_in_place(out.plan, in_place_.plan, shape.gpus_per_node, *options_.keep);
  }
  if (policy_.replica_choice != nullptr) {
    out.shares = choose_replicas(*policy_.replica_choice, out.plan, window, shape);
  }
  return out;
}

void Rebalancer::drop() {
  if (migration_ != nullptr && !migration_->moves.empty()) {
    event_of(*migration_).outcome = RebalanceOutcome::kCutShort;
  }
  migration_.reset();
  for (std::unique_ptr<StepPrices>* shadow : {&first_, &replaced_, &slowed_}) {
    shadow->reset();
  }
  serving_.reset();
}

// Which experts go together is what the first plan was made from: engines count loads alone.
LoadWindow Rebalancer::window() const {
  if (steps_ == 0) {
    return scenario_.plan_window;
  }
  LoadWindow out = history_.window(policy_.uses_steps);
  out.set_affinity(scenario_.plan_window.affinity());
  return out;
}

// In which layers may switch: with what arrives of the layer under way, no GPU may ever hold more experts than the first
// plan and the buffer for a layer left memory for, and in the end none of these in the buffer. Next comes the layer that
// adds the fewest to any GPU. None where such an order is not found.
std::optional<std::vector<std::size_t>> Rebalancer::order_that_fits(const PlacementPlan& next) const {
  const auto gpus = static_cast<std::size_t>(next.gpus);
  std::vector<std::int64_t> room(gpus, most_resident_), needed(layers() * gpus), grows(needed),
      most(layers(), std::numeric_limits<std::int64_t>::min());
  std::vector<std::size_t> left(layers()), order;
  for (std::size_t l = 0; l < layers(); ++l) {
    const LayerPlan &from = in_place_.plan.layers[l], &to = next.layers[l];
    for (std::size_t g = 0; g < gpus; ++g) {
      const std::vector<int> held = experts_on(from, g), wanted = experts_on(to, g);
      std::vector<int> arriving;
      std::ranges::set_difference(wanted, held, std::back_inserter(arriving));
      room[g] -= std::ssize(held);
      needed[l * gpus + g] = std::ssize(arriving) - buffered_;
      grows[l * gpus + g] = std::ssize(wanted) - std::ssize(held);
      most[l] = std::max(most[l], grows[l * gpus + g]);
    }
    left[l] = l;
  }
  std::stable_sort(left.begin(), left.end(), [&](std::size_t a, std::size_t b) { return most[a] < most[b]; });
  while (!left.empty()) {
    const auto found = std::ranges::find_if(left, [&](std::size_t l) {
      return std::equal(room.begin(), room.end(), needed.begin() + static_cast<std::ptrdiff_t>(l * gpus),
                        [](std::int64_t has, std::int64_t more) { return more <= has; });
    });
    if (found == left.end()) {
      return std::nullopt;
    }
    for (std::size_t g = 0; g < gpus; ++g) {
      room[g] -= grows[*found * gpus + g];
    }
    order.push_back(*found);
    left.erase(found);
  }
  return *std::min_element(room.begin(), room.end()) >= 0 ? std::optional(order) : std::nullopt;
}

// The rule's view: experts' time goes with the busiest GPU, the rest of a step stays as it is.
RebalanceOutcome Rebalancer::judge(const Migration& migration, const RebalanceEvent& event) const {
  if (same_layout(migration.next.plan, in_place_.plan)) {
    return RebalanceOutcome::kUnchanged;
  }
  if (migration.order.empty()) {
    return RebalanceOutcome::kDidNotFit;
  }
  const auto steps = static_cast<double>(since_look_.steps);
  const Seconds step = since_look_.time / steps, experts = since_look_.experts / steps;
  Seconds switching = to_seconds(to_ticks(options_.planning_time) + event.transfer);
  if (options_.background) {
    const double exchange = since_look_.exchange / since_look_.time;
    switching = to_seconds(event.transfer) * exchange / (1 - options_.link_share);
  }
  const RebalanceOffer offer{step, step - experts + expert_time_at(experts, event.balancedness, event.planned),
                             switching};
  return options_.rule->accept(offer) ? RebalanceOutcome::kTaken : RebalanceOutcome::kTurnedDown;
}

void Rebalancer::look(Ticks now) {
  const LoadWindow window = this->window();
  auto migration = std::make_unique<Migration>();
  Migration& m = *migration;
  m.event = report_.events.size();
  m.next = plan_again(window);
  m.planned = now + to_ticks(options_.planning_time);
  m.order = order_that_fits(m.next.plan).value_or(std::vector<std::size_t>{});
  m.moves = moves_.plan(m.next.plan, in_place_.plan, conditions_);
  RebalanceEvent event;
  event.step = steps_;
  event.at = now;
  event.balancedness = history_.balancedness(since_look_.steps);
  event.planned = mean(balancedness_by_layer(build_unlimited(pool_, m.next), window));
  event.transfer = std::accumulate(m.moves.begin(), m.moves.end(), Ticks{},
                                   [](Ticks sum, const LayerMove& move) { return sum + move.price.time; });
  event.outcome = judge(m, event);
  m.moves = event.outcome == RebalanceOutcome::kTaken
                ? mapped(m.order, [&](std::size_t l) { return std::move(m.moves[l]); })
                : std::vector<LayerMove>{};
  m.chunk_end = chunk_end(0);
  report_.events.push_back(event);
  since_look_ = {};
  migration_ = std::move(migration);
}

// Exchanges and the ranks' collectives have what transfers leave of every link.
StepConditions Rebalancer::beside_transfers() const {
  StepConditions out = conditions_;
  out.link_speed.resize(static_cast<std::size_t>(pool_.cluster.gpus()), 1.0);
  for (double& speed : out.link_speed) {
    speed *= 1 - options_.link_share;
  }
  return out;
}

void Rebalancer::set_conditions(const StepConditions& conditions) {
  conditions_ = conditions;
  for (StepPrices* model : {first_.get(), replaced_.get()}) {
    if (model != nullptr) {
      model->set_conditions(conditions);
    }
  }
  if (slowed_ != nullptr) {
    slowed_->set_conditions(beside_transfers());
  }
}

}  // namespace epsim
