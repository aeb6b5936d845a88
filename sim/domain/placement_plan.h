// What a placement policy asks for: which logical expert sits in which slot of which GPU, layer by layer.
#pragma once

#include <string>
#include <vector>

namespace epsim {

// One layer. Slots are numbered GPU by GPU; GPU g owns slots first_slot[g] .. first_slot[g + 1] - 1.
struct LayerPlan {
  std::vector<int> slots;       // logical expert in each slot ("phy2log")
  std::vector<int> first_slot;  // GPUs + 1 offsets
  std::vector<int> copy_rank;   // which copy of its expert a slot holds, 0 = the original; empty = in slot order

  int gpus() const { return static_cast<int>(first_slot.size()) - 1; }
};

// The same number of slots on every GPU: the usual case.
LayerPlan uniform_layer(std::vector<int> slots, int gpus);
// The slots of each GPU, of which any may have more than others.
LayerPlan layer_of_gpus(const std::vector<std::vector<int>>& slots);

struct PlacementPlan {
  std::string policy;  // how it was made, for reports
  int experts = 0;
  int gpus = 0;
  std::vector<LayerPlan> layers;  // MoE layers in order

  // Slots over all layers beyond one for each expert.
  int copies() const;
  // Slots beyond an even share of the experts, over all layers, on the GPU with most of them: extra copies, or in a plan
  // that has none, experts that other GPUs have fewer of.
  int beyond_even_share() const;
  // The same of a plan that has copies, 0 of one that has none.
  int copies_on_fullest_gpu() const { return copies() > 0 ? beyond_even_share() : 0; }
  // Slots of a layer on one GPU, at most.
  int most_in_a_layer() const;
};

}  // namespace epsim
