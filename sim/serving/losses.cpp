#include "sim/serving/losses.h"

#include <algorithm>

namespace epsim {
namespace {

std::vector<Fault> takers(std::span<const Fault> faults) {
  std::vector<Fault> out;
  std::copy_if(faults.begin(), faults.end(), std::back_inserter(out), [](const Fault& f) { return f.takes_gpus(); });
  std::stable_sort(out.begin(), out.end(), [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return out;
}

// Ranks that have lost a GPU.
std::vector<int> broken_ranks(const std::vector<bool>& lost, const Parallelism& parallelism) {
  std::vector<int> out;
  for (int g = 0; g < parallelism.gpus; ++g) {
    const int rank = parallelism.rank_of(g);
    if (lost[static_cast<std::size_t>(g)] && (out.empty() || out.back() != rank)) {
      out.push_back(rank);
    }
  }
  return out;
}

// EP ranks that have lost a GPU, and with it a part of every expert of theirs.
std::vector<bool> broken_ep_ranks(const std::vector<bool>& lost, const Parallelism& parallelism) {
  std::vector<bool> out(static_cast<std::size_t>(parallelism.ep_size()), false);
  for (int g = 0; g < parallelism.gpus; ++g) {
    const auto rank = static_cast<std::size_t>(g / parallelism.moe_tp);
    out[rank] = out[rank] || lost[static_cast<std::size_t>(g)];
  }
  return out;
}

}  // namespace

std::optional<PlacementPlan> without_gpus(const PlacementPlan& plan, const std::vector<bool>& lost) {
  PlacementPlan out{.policy = plan.policy, .experts = plan.experts, .gpus = plan.gpus, .layers = {}};
  for (const LayerPlan& layer : plan.layers) {
    LayerPlan left{.slots = {}, .first_slot = {0}, .copy_rank = {}};
    std::vector<bool> held(static_cast<std::size_t>(plan.experts), false);
    for (std::size_t g = 0; g < lost.size(); ++g) {
      for (int s = layer.first_slot[g]; s < layer.first_slot[g + 1] && !lost[g]; ++s) {
        const int expert = layer.slots[static_cast<std::size_t>(s)];
        left.slots.push_back(expert);
        held[static_cast<std::size_t>(expert)] = true;
      }
      left.first_slot.push_back(static_cast<int>(left.slots.size()));
    }
    if (std::find(held.begin(), held.end(), false) != held.end()) {
      return std::nullopt;
    }
    out.layers.push_back(std::move(left));
  }
  return out;
}

InstanceLosses losses_of(std::span<const Fault> faults, const PlacementPlan& plan, const Parallelism& parallelism) {
  InstanceLosses out;
  std::vector<bool> lost(static_cast<std::size_t>(parallelism.gpus), false);
  for (const Fault& fault : takers(faults)) {
    std::fill_n(lost.begin() + fault.first_gpu, fault.gpus, true);
    Loss loss{.at = fault.at, .recovery = fault.recovery, .ranks = broken_ranks(lost, parallelism)};
    std::optional<PlacementPlan> left = without_gpus(plan, broken_ep_ranks(lost, parallelism));
    loss.fatal = !left || std::ssize(loss.ranks) == parallelism.dp_ranks();
    out.plans.push_back(loss.fatal ? PlacementPlan{} : std::move(*left));
    out.losses.push_back(std::move(loss));
  }
  return out;
}

}  // namespace epsim
