#include "policies/rebalance/elastic.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "policies/placement/capacity_packing.h"
#include "sim/core/check.h"

namespace epsim {
namespace {

void append_gpu(LayerPlan& to, const LayerPlan& from, std::size_t gpu) {
  to.slots.insert(to.slots.end(), from.slots.begin() + from.first_slot[gpu],
                  from.slots.begin() + from.first_slot[gpu + 1]);
}

// One layer whose copies share their expert's load evenly.
class SharedLayer {
 public:
  SharedLayer(LayerPlan& layer, std::span<const double> loads)
      : layer_(layer), loads_(loads), copies_(loads.size(), 0), gpu_load_(static_cast<std::size_t>(layer.gpus()), 0.0) {
    for (std::size_t g = 0; g < gpu_load_.size(); ++g) {
      gpu_of_.insert(gpu_of_.end(), static_cast<std::size_t>(layer.first_slot[g + 1] - layer.first_slot[g]), g);
    }
    for (const int e : layer.slots) {
      ++copies_[static_cast<std::size_t>(e)];
    }
    for (std::size_t s = 0; s < layer.slots.size(); ++s) {
      gpu_load_[gpu_of_[s]] += per_copy(layer.slots[s], 0);
    }
  }

  // By descending load, the lower number first.
  std::vector<int> missing() const {
    std::vector<int> out;
    for (int e = 0; e < std::ssize(copies_); ++e) {
      if (copies_[static_cast<std::size_t>(e)] == 0) {
        out.push_back(e);
      }
    }
    std::stable_sort(out.begin(), out.end(), [this](int a, int b) { return load(a) > load(b); });
    return out;
  }

  bool give_slot(int expert) {
    std::size_t best = layer_.slots.size();
    double least = 0;
    for (std::size_t s = 0; s < layer_.slots.size(); ++s) {
      if (copies_[static_cast<std::size_t>(layer_.slots[s])] > 1) {
        const double peak = peak_with(s, expert);
        if (best == layer_.slots.size() || peak < least) {
          best = s;
          least = peak;
        }
      }
    }
    if (best == layer_.slots.size()) {
      return false;
    }
    take(best, expert);
    return true;
  }

 private:
  double load(int expert) const { return loads_[static_cast<std::size_t>(expert)]; }
  double per_copy(int expert, int fewer) const {
    return load(expert) / (copies_[static_cast<std::size_t>(expert)] - fewer);
  }

  // The highest load among the GPUs that change when slot `s` goes to `expert`.
  double peak_with(std::size_t s, int expert) const {
    const int giver = layer_.slots[s];
    double peak = gpu_load_[gpu_of_[s]] - per_copy(giver, 0) + load(expert);
    for (std::size_t other = 0; other < layer_.slots.size(); ++other) {
      if (other != s && layer_.slots[other] == giver) {
        peak = std::max(peak, gpu_load_[gpu_of_[other]] + per_copy(giver, 1) - per_copy(giver, 0));
      }
    }
    return peak;
  }

  void take(std::size_t s, int expert) {
    const int giver = layer_.slots[s];
    for (std::size_t other = 0; other < layer_.slots.size(); ++other) {
      if (other != s && layer_.slots[other] == giver) {
        gpu_load_[gpu_of_[other]] += per_copy(giver, 1) - per_copy(giver, 0);
      }
    }
    gpu_load_[gpu_of_[s]] += load(expert) - per_copy(giver, 0);
    --copies_[static_cast<std::size_t>(giver)];
    ++copies_[static_cast<std::size_t>(expert)];
    layer_.slots[s] = expert;
  }

  LayerPlan& layer_;
  std::span<const double> loads_;
  std::vector<int> copies_;          // [expert]
  std::vector<double> gpu_load_;     // [GPU]
  std::vector<std::size_t> gpu_of_;  // [slot]
};

}  // namespace

PlacementPlan with_gpus_left(const PlacementPlan& plan, const PlacementPlan& first, const LostGpus& before,
                             const LostGpus& now) {
  EPSIM_CHECK(plan.layers.size() == first.layers.size() && before.size() == now.size() &&
                  now.size() == static_cast<std::size_t>(plan.gpus),
              "both plans are for one model on the same GPUs");
  PlacementPlan out{.policy = plan.policy, .experts = plan.experts, .gpus = plan.gpus, .layers = {}};
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    LayerPlan left{.slots = {}, .first_slot = {0}, .copy_rank = {}};
    for (std::size_t g = 0; g < now.size(); ++g) {
      if (!now[g]) {
        append_gpu(left, before[g] ? first.layers[l] : plan.layers[l], g);
      }
      left.first_slot.push_back(static_cast<int>(left.slots.size()));
    }
    out.layers.push_back(std::move(left));
  }
  return out;
}

bool has_every_expert(const PlacementPlan& plan) {
  return std::all_of(plan.layers.begin(), plan.layers.end(), [&](const LayerPlan& layer) {
    std::vector<bool> held(static_cast<std::size_t>(plan.experts), false);
    for (const int e : layer.slots) {
      held[static_cast<std::size_t>(e)] = true;
    }
    return std::find(held.begin(), held.end(), false) == held.end();
  });
}

std::optional<PlacementPlan> give_slots_to_missing(PlacementPlan plan, const LoadWindow& loads) {
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    SharedLayer layer(plan.layers[l], loads.layer(static_cast<int>(l)));
    for (const int expert : layer.missing()) {
      if (!layer.give_slot(expert)) {
        return std::nullopt;
      }
    }
  }
  return plan;
}

std::optional<PlacementPlan> plan_for_left(const PlacementPlan& first, const LostGpus& lost, const LoadWindow& loads) {
  PlacementPlan out{.policy = first.policy, .experts = first.experts, .gpus = first.gpus, .layers = {}};
  for (std::size_t l = 0; l < first.layers.size(); ++l) {
    const LayerPlan& layer = first.layers[l];
    std::vector<int> capacity;
    for (std::size_t g = 0; g < lost.size(); ++g) {
      capacity.push_back(lost[g] ? 0 : layer.first_slot[g + 1] - layer.first_slot[g]);
    }
    if (std::accumulate(capacity.begin(), capacity.end(), 0) < first.experts) {
      return std::nullopt;
    }
    out.layers.push_back(place_by_capacity(loads.layer(static_cast<int>(l)), capacity, false));
  }
  return out;
}

}  // namespace epsim
