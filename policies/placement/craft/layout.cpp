#include "policies/placement/craft/layout.h"

#include <algorithm>

#include "policies/placement/eplb.h"
#include "sim/core/check.h"
#include "sim/core/mapped.h"

namespace epsim {
namespace {

// `count` of the `tied` GPUs, each time the lowest of the node that holds fewest experts; ties to the lower node.
std::vector<int> from_emptiest_nodes(std::vector<int> tied, int count, const std::vector<int>& held,
                                     int gpus_per_node) {
  std::vector<int> node_held(held.size() / static_cast<std::size_t>(gpus_per_node), 0);
  const auto node_of = [&](int gpu) { return static_cast<std::size_t>(gpu / gpus_per_node); };
  for (std::size_t g = 0; g < held.size(); ++g) {
    node_held[node_of(static_cast<int>(g))] += held[g];
  }
  std::vector<int> out;
  for (int i = 0; i < count; ++i) {
    const auto best = std::min_element(tied.begin(), tied.end(),
                                       [&](int a, int b) { return node_held[node_of(a)] < node_held[node_of(b)]; });
    out.push_back(*best);
    ++node_held[node_of(*best)];
    tied.erase(best);
  }
  return out;
}

// The GPUs that get this layer's `extra` slots: those with fewer experts than the extra-th smallest number, and as many
// of those that have just that number as are still needed.
std::vector<int> gpus_for_extra(const std::vector<int>& held, int extra, Interleave how, int gpus_per_node) {
  std::vector<int> sorted = held;
  std::nth_element(sorted.begin(), sorted.begin() + (extra - 1), sorted.end());
  const int cutoff = sorted[static_cast<std::size_t>(extra - 1)];
  std::vector<int> chosen, tied;
  for (std::size_t g = 0; g < held.size(); ++g) {
    if (held[g] < cutoff) {
      chosen.push_back(static_cast<int>(g));
    } else if (held[g] == cutoff) {
      tied.push_back(static_cast<int>(g));
    }
  }
  const int missing = extra - static_cast<int>(chosen.size());
  std::vector<int> picked;
  if (how == Interleave::kLeastFilledNode) {
    std::vector<int> so_far = held;
    for (const int g : chosen) {
      ++so_far[static_cast<std::size_t>(g)];
    }
    picked = from_emptiest_nodes(std::move(tied), missing, so_far, gpus_per_node);
  } else {
    for (const int i : interleave_select(static_cast<int>(tied.size()), missing, how)) {
      picked.push_back(tied[static_cast<std::size_t>(i)]);
    }
  }
  chosen.insert(chosen.end(), picked.begin(), picked.end());
  return chosen;
}

// The slots of `gpus` GPUs that are filled together, added to each layer's row.
void add_part(std::span<const int> layer_experts, int gpus, int gpus_per_node, Interleave how,
              std::vector<std::vector<int>>& rows) {
  int whole = 0;
  for (const int experts : layer_experts) {
    whole += experts / gpus;
  }
  std::vector<int> held(static_cast<std::size_t>(gpus), whole);
  for (std::size_t l = 0; l < layer_experts.size(); ++l) {
    std::vector<int> capacity(static_cast<std::size_t>(gpus), layer_experts[l] / gpus);
    const int extra = layer_experts[l] % gpus;
    for (const int g : extra > 0 ? gpus_for_extra(held, extra, how, gpus_per_node) : std::vector<int>{}) {
      ++capacity[static_cast<std::size_t>(g)];
      ++held[static_cast<std::size_t>(g)];
    }
    rows[l].insert(rows[l].end(), capacity.begin(), capacity.end());
  }
}

}  // namespace

std::vector<int> interleave_select(int n, int k, Interleave how) {
  EPSIM_CHECK(k >= 0 && k <= n, "no more are picked than there are");
  std::vector<int> out;
  for (int i = 0; i < k; ++i) {
    if (how == Interleave::kFloor) {
      out.push_back(i * n / k);
    } else {
      // round(i (n - 1) / (k - 1)), halves up; a single pick is the first.
      out.push_back(k == 1 ? 0 : (2 * i * (n - 1) + (k - 1)) / (2 * (k - 1)));
    }
  }
  return out;
}

std::vector<int> powers_of_two_and(int most) {
  std::vector<int> out;
  for (int x = 1; x < most; x *= 2) {
    out.push_back(x);
  }
  out.push_back(most);
  return out;
}

std::vector<int> craft_counts(const CraftLayout& layout) {
  std::vector<int> out = powers_of_two_and(layout.gpus);
  std::erase_if(out, [&](int count) { return count % layout.parts() != 0; });
  return out;
}

std::vector<std::vector<int>> assign_capacities(std::span<const int> layer_experts, const CraftLayout& layout,
                                                Interleave how) {
  const int parts = layout.parts();
  std::vector<int> share(layer_experts.begin(), layer_experts.end());
  for (int& experts : share) {
    EPSIM_CHECK(experts % parts == 0, "a layer's experts divide over the parts");
    experts /= parts;
  }
  std::vector<std::vector<int>> out(layer_experts.size());
  for (int part = 0; part < parts; ++part) {
    add_part(share, layout.gpus / parts, layout.gpus_per_node, how, out);
  }
  return out;
}

LayerPlan place_layer(std::span<const double> loads, std::span<const int> capacity, const CraftLayout& layout,
                      const CraftPacking& packing) {
  if (layout.parts() == 1) {
    return place_by_capacity(loads, capacity, packing.allow_duplicates, packing.ties);
  }
  const auto parts = static_cast<std::size_t>(layout.parts());
  const std::vector<float> rounded(loads.begin(), loads.end());
  const std::vector<int> order = experts_by_node<float>(rounded, layout.groups, layout.parts(), TieOrder::kStable);
  const std::size_t experts = loads.size() / parts, gpus = capacity.size() / parts;
  LayerPlan out{.slots = {}, .first_slot = {0}, .copy_rank = {}};
  for (std::size_t part = 0; part < parts; ++part) {
    const std::span<const int> ids = std::span(order).subspan(part * experts, experts);
    const std::vector<double> own = mapped(ids, [&](int e) { return loads[static_cast<std::size_t>(e)]; });
    const LayerPlan node =
        place_by_capacity(own, capacity.subspan(part * gpus, gpus), packing.allow_duplicates, packing.ties);
    const int base = static_cast<int>(out.slots.size());
    for (const int at : node.slots) {
      out.slots.push_back(ids[static_cast<std::size_t>(at)]);
    }
    for (std::size_t g = 1; g < node.first_slot.size(); ++g) {
      out.first_slot.push_back(base + node.first_slot[g]);
    }
    out.copy_rank.insert(out.copy_rank.end(), node.copy_rank.begin(), node.copy_rank.end());
  }
  return out;
}

}  // namespace epsim
