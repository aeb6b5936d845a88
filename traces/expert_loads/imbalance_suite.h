// Eight loads whose imbalance is known by construction, W0 to W7, to test engines and policies with. The names follow
// the suite of NVIDIA/Megatron-LM pull request 7488; the definitions here are ours.
//
//   balanced          W0  every expert takes the same load, from every source
//   hot_experts       W1  `hot` experts at random places take `factor` times the mean each, the others share the rest
//   hot_rank          W2  the experts of one GPU (of `gpus`, experts in order) take `factor` times the mean together
//   spread_hot        W3  one hot expert on every GPU: uneven experts, even GPUs
//   source_ragged     W4  each source prefers an equal block of experts of its own by `factor`: sources differ, and
//                         their sum is balanced when they bring equal tokens
//   zero_load         W5  a share of the experts (`idle`, every second one first) takes nothing
//   rotating_hotspot  W6  hot_rank, and the hot GPU moves on by one every `period` steps
//   burst             W7  balanced, but for the first `length` steps of every `period`, which are hot_experts
//
// Chances are exact: no noise is drawn. Hot experts and GPUs differ by layer, as the seed has it.
#pragma once

#include <vector>

#include "sim/core/choice.h"
#include "sim/core/config.h"
#include "sim/core/rng.h"
#include "sim/domain/moe_spec.h"
#include "sim/domain/step_loads.h"

namespace epsim {

enum class Imbalance {
  kBalanced,
  kHotExperts,
  kHotRank,
  kSpreadHot,
  kSourceRagged,
  kZeroLoad,
  kRotatingHotspot,
  kBurst
};
template <>
inline constexpr auto kNames<Imbalance> = choice<Imbalance>({{"balanced", Imbalance::kBalanced},
                                                             {"hot_experts", Imbalance::kHotExperts},
                                                             {"hot_rank", Imbalance::kHotRank},
                                                             {"spread_hot", Imbalance::kSpreadHot},
                                                             {"source_ragged", Imbalance::kSourceRagged},
                                                             {"zero_load", Imbalance::kZeroLoad},
                                                             {"rotating_hotspot", Imbalance::kRotatingHotspot},
                                                             {"burst", Imbalance::kBurst}});

struct ImbalanceSpec {
  Imbalance kind = Imbalance::kBalanced;
  int hot = 2, gpus = 8;
  double factor = 4;
  double idle = 0.5;
  std::int64_t period = 100, length = 10;  // steps
  // Throws InputError naming the key when no routing of `model` can be so uneven.
  void validate(const MoeSpec& model, const ConfigReader& in) const;
};

class ImbalanceSource final : public ExpertLoadSource {
 public:
  ImbalanceSource(const ImbalanceSpec& spec, int layers, int experts, int top_k, Seed seed);
  int layers() const override { return layers_; }
  int experts() const override { return experts_; }
  void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const override;
  // Steps after which the loads begin anew.
  std::int64_t cycle() const;

 private:
  void fill(int layer, std::int64_t step, std::size_t source, std::size_t sources, std::span<float> row) const;

  ImbalanceSpec spec_;
  int layers_, experts_, top_k_;
  std::vector<std::vector<int>> order_;  // [layer] experts, the hot ones first
  std::vector<int> hot_gpu_;             // [layer]
};

}  // namespace epsim
