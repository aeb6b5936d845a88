#include "sim/cluster/expert_recovery.h"

#include <algorithm>
#include <utility>

#include "policies/rebalance/keep_in_place.h"

namespace epsim {
namespace {

std::vector<bool> experts_of(const LayerPlan& layer, int experts) {
  std::vector<bool> held(static_cast<std::size_t>(experts), false);
  for (const int e : layer.slots) {
    held[static_cast<std::size_t>(e)] = true;
  }
  return held;
}

// Slots of one layer of the next plan whose expert no GPU holds: they are brought from outside, and count as held.
struct FromOutside {
  LayerPlan held;
  std::vector<int> slots;  // [GPU] such slots
};

FromOutside from_outside(const LayerPlan& next, const LayerPlan& held, int experts) {
  const std::vector<bool> here = experts_of(held, experts);
  FromOutside out{{.slots = {}, .first_slot = {0}, .copy_rank = {}}, {}};
  for (std::size_t g = 0; g + 1 < next.first_slot.size(); ++g) {
    out.held.slots.insert(out.held.slots.end(), held.slots.begin() + held.first_slot[g],
                          held.slots.begin() + held.first_slot[g + 1]);
    out.slots.push_back(0);
    for (int s = next.first_slot[g]; s < next.first_slot[g + 1]; ++s) {
      const int expert = next.slots[static_cast<std::size_t>(s)];
      if (!here[static_cast<std::size_t>(expert)]) {
        out.held.slots.push_back(expert);
        ++out.slots.back();
      }
    }
    out.held.first_slot.push_back(static_cast<int>(out.held.slots.size()));
  }
  return out;
}

}  // namespace

ExpertRecovery::ExpertRecovery(const Scenario& scenario, const InstancePool& pool, PlacementPlan first)
    : scenario_(scenario),
      pool_(pool),
      first_(std::move(first)),
      last_(first_),
      lost_(static_cast<std::size_t>(first_.gpus), false),
      moves_(scenario.model, pool.cluster, pool.parallelism.moe_tp, scenario.network, pool.dispatch.network) {}

std::optional<PlacementPlan> ExpertRecovery::next_plan(const PlacementPlan& plan, const LostGpus& now,
                                                       const LoadWindow& loads) const {
  PlacementPlan left = with_gpus_left(plan, last_, lost_, now);
  switch (scenario_.deployment.after_loss) {
    case AfterLoss::kKeep:
      break;
    case AfterLoss::kRepair:
      return give_slots_to_missing(std::move(left), loads);
    case AfterLoss::kReplan: {
      const bool whole = std::find(now.begin(), now.end(), true) == now.end();
      std::optional<PlacementPlan> next = whole ? first_ : plan_for_left(first_, now, loads);
      if (next) {
        const ClusterShape shape = pool_.parallelism.ep_shape(shape_of(pool_.cluster));
        next = keep_in_place(*next, left, shape.gpus_per_node, Keep::kGpus);
      }
      return next;
    }
  }
  return has_every_expert(left) ? std::optional(std::move(left)) : std::nullopt;
}

// False where an expert comes from nowhere. A GPU that comes back has loaded its own, if nobody has them, by the time
// that it takes part.
bool ExpertRecovery::bring(const PlacementPlan& next, const PlacementPlan& held, const LostGpus& before,
                           const StepConditions& conditions, std::vector<double>& link_bytes, Ticks& time) {
  const double rate = scenario_.deployment.reload_rate.count();
  PlacementPlan source = held;
  std::vector<double> loaded(before.size(), 0.0);  // [EP rank] bytes of each of its GPUs
  std::int64_t copies = 0;
  for (std::size_t l = 0; l < next.layers.size(); ++l) {
    FromOutside outside = from_outside(next.layers[l], held.layers[l], next.experts);
    for (std::size_t g = 0; g < loaded.size(); ++g) {
      if (rate == 0 && outside.slots[g] > 0 && !before[g]) {
        return false;
      }
      loaded[g] += moves_.expert_bytes().count() * outside.slots[g];
      copies += outside.slots[g];
    }
    source.layers[l] = std::move(outside.held);
  }
  Ticks moving{};
  for (const LayerMove& move : moves_.plan(next, source, conditions)) {
    moves_.count(move, link_bytes);
    moving += move.price.time;
    copies += std::ssize(move.copies) / pool_.parallelism.moe_tp;
    report_.moved += moves_.expert_bytes() * static_cast<double>(move.copies.size());
  }
  Seconds loading{};
  for (const double bytes : loaded) {
    report_.reloaded += Bytes(bytes * pool_.parallelism.moe_tp);
    loading = std::max(loading, rate > 0 ? Seconds(bytes / rate) : Seconds{});
  }
  report_.remade_copies += copies;
  time = std::max(moving, to_ticks(loading));
  report_.remaking += time;
  return true;
}

std::optional<Ticks> ExpertRecovery::recover(PlacementPlan& plan, const LostGpus& lost, const LoadWindow& loads,
                                             const StepConditions& conditions, std::vector<double>& link_bytes) {
  ++report_.changes;
  last_ = with_gpus_left(plan, last_, lost_, LostGpus(lost.size(), false));
  std::optional<PlacementPlan> next = next_plan(plan, lost, loads);
  PlacementPlan left = with_gpus_left(plan, last_, lost_, lost);
  LostGpus either = lost_;
  for (std::size_t g = 0; g < lost.size(); ++g) {
    either[g] = either[g] || lost[g];
  }
  const PlacementPlan held = with_gpus_left(plan, last_, LostGpus(lost.size(), false), either);
  const LostGpus before = std::exchange(lost_, lost);
  Ticks time{};
  bool whole = next && bring(*next, held, before, conditions, link_bytes, time);
  if (!whole && has_every_expert(left)) {  // what is there will do, where a better plan cannot be loaded
    next = left;
    whole = bring(*next, held, before, conditions, link_bytes, time);
  }
  if (!whole) {
    plan = std::move(left);
    return std::nullopt;
  }
  plan = *std::move(next);
  plan.policy = first_.policy;
  return time;
}

}  // namespace epsim
