// Where CRAFT may put a layer's copies: on all GPUs alike, or inside the nodes that hold their groups.
//   Source  : CRAFT, Sec. 4.2.2 and Algorithm 3; hierarchical placement as in deepseek-ai/EPLB.
//   Readings: the paper's Placement(W, E + r, N) names the nodes, but copies that need not divide over nodes leave only
//            global placement, which is the default. Hierarchical placement packs whole expert groups onto nodes and
//            keeps copies inside them; a layer's copies are then multiples of the nodes.
#pragma once

#include <span>
#include <vector>

#include "policies/placement/capacity_packing.h"
#include "sim/core/choice.h"
#include "sim/domain/placement_plan.h"

namespace epsim {

// How k of n tied GPUs are picked: floor(i n / k) (the paper's Figure 10), evenly with both ends included (the text
// beside its Algorithm 3), or each time the lowest GPU of the node that holds fewest experts so far.
enum class Interleave { kFloor, kEndpoints, kLeastFilledNode };
template <>
inline constexpr auto kNames<Interleave> = choice<Interleave>({{"floor", Interleave::kFloor},
                                                               {"endpoints", Interleave::kEndpoints},
                                                               {"least_filled_node", Interleave::kLeastFilledNode}});
// Positions 0 .. n-1, k of them, ascending; 0 <= k <= n. For kFloor and kEndpoints, which know no nodes.
std::vector<int> interleave_select(int n, int k, Interleave how);

struct CraftLayout {
  int gpus = 1, gpus_per_node = 1;
  bool hierarchical = false;
  int groups = 1;  // expert groups of the model's router, a multiple of the nodes in hierarchical mode

  static CraftLayout global(int gpus) { return {.gpus = gpus, .gpus_per_node = gpus}; }
  // Parts of the cluster that are filled apart from each other: nodes, or everything.
  int parts() const { return hierarchical ? gpus / gpus_per_node : 1; }
};

// 1, 2, 4, .. below `most`, and `most` itself.
std::vector<int> powers_of_two_and(int most);

// Extra copies per layer worth trying: powers of two up to the number of GPUs, and that number itself; of these the
// ones that divide over the parts.
std::vector<int> craft_counts(const CraftLayout& layout);

// Slots per GPU, [layer][GPU], for layers that hold layer_experts[l] physical experts (originals and copies), which
// divide over the parts. Inside a layer GPUs (of a part) differ by at most one; over all layers they are equal when the
// sum divides over the GPUs, else they differ by at most one. Extra slots go to the GPUs that hold fewest so far, tied
// ones interleaved.
std::vector<std::vector<int>> assign_capacities(std::span<const int> layer_experts, const CraftLayout& layout,
                                                Interleave how);

// How one layer is filled greedily (capacity_packing.h).
struct CraftPacking {
  bool allow_duplicates = false;
  GpuTies ties = GpuTies::kLessRoom;
};
LayerPlan place_layer(std::span<const double> loads, std::span<const int> capacity, const CraftLayout& layout,
                      const CraftPacking& packing);

}  // namespace epsim
