// Routing as C2R constrains it: a token's first choice is free, its others are among the experts that most often serve
// tokens with the first.
//
//   Models : each expert's list of so many collaborators, by the tokens of a profile that chose both, ties to the lower
//            id. A token's choice outside the list of its first is rerouted into the list. Recorded tokens are rerouted
//            one by one; of loads without tokens, each expert's share goes where a sample's choices of that expert went.
//   Reading: the first of a token's experts is the strongest, as a router lists its top-k. What the router scored the
//            experts that it did not choose is not recorded: one of the list that the token lacks is drawn, with chances
//            in proportion to the profile's tokens that chose it with the first.
//   Ignores: that a rerouted token chooses otherwise in later layers; the fine-tuning that C2R recovers accuracy with.
//   Cost   : experts^2 multiplications a step, layer and source, unless tokens are recorded.
//   Source : UNITES-Lab/c2r-moe profiling.py (get_expert_collaboration) and Qwen-MoE/model_topt30/modeling_qwen2_moe.py
//            (Qwen2MoeSparseMoeBlock.forward); arXiv 2504.01337.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/core/rng.h"
#include "sim/domain/affinity.h"
#include "sim/domain/load_window.h"
#include "sim/domain/step_loads.h"

namespace epsim {

class Collaborators {
 public:
  // `count`: at least top-k - 1, and fewer than the experts.
  Collaborators(const Affinity& profile, int count);

  // Reroutes tokens, [token][layer][k], in place. How many of their choices changed.
  std::int64_t reroute(std::span<std::uint16_t> experts, int top_k, RandomStream& random) const;

 private:
  // Of one token in one layer.
  std::int64_t reroute_choices(int layer, std::span<std::uint16_t> choices, RandomStream& random) const;
  std::size_t list(int layer, int expert) const;

  int layers_, experts_, count_;
  std::vector<std::uint16_t> lists_;  // [layer][expert][count]
  std::vector<double> together_;      // as many, tokens of the profile
};

// What a constrained run plans from and runs on.
struct ReroutedLoads {
  LoadWindow plan, run;
  std::shared_ptr<const ExpertLoadSource> loads;
};
// The lists are those of `plan`, whose tokens also say how loads without tokens are rerouted where `run` has none. `plan`
// must have tokens. Equal arguments give equal loads.
ReroutedLoads reroute_loads(int collaborators, const LoadWindow& plan, const LoadWindow& run,
                            std::shared_ptr<const ExpertLoadSource> loads, Seed seed);

}  // namespace epsim
