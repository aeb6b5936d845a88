// Eight loads whose imbalance is known by construction, W0 to W7, to test engines and policies with. The names follow
// the suite of NVIDIA/Megatron-LM pull request 7488; the definitions here are ours.
//
//   balanced          W0  every expert takes the same load, from every source
//   hot_experts       W1  `hot` experts at random places take `factor` times the mean each, the others share the rest
//   hot_rank          W2  the experts of one GPU (of `gpus`, experts in order) take `factor` times the mean together
//   spread_hot        W3  one hot expert on every GPU: uneven experts, even GPUs
//   source_ragged     W4  each source prefers an equal block of experts of its own by `factor`: sources differ, and
//   their
//                         sum is balanced when they bring equal tokens
//   zero_load         W5  a share of the experts (`idle`, every second one first) takes nothing
//   rotating_hotspot  W6  hot_rank, and the hot GPU moves on by one every `period` steps
//   burst             W7  balanced, but for the first `length` steps of every `period`, which are hot_experts
//
// Chances are exact: no noise is drawn. Hot experts and GPUs differ by layer, as the seed has it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/core/config.h"
#include "sim/core/rng.h"
#include "sim/domain/load_window.h"
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
inline constexpr const char* kImbalanceNames[] = {"balanced",      "hot_experts", "hot_rank",         "spread_hot",
                                                  "source_ragged", "zero_load",   "rotating_hotspot", "burst"};

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

// Scenario sections of kind `imbalance`. Keys: pattern (a name above), and of those that the pattern uses: hot, factor,
// gpus, idle, period, length. As a window to plan from: the mean over a cycle, `tokens` (2^20) of `sources` (8)
// together.
LoadWindow make_imbalance_window(ConfigReader& in, const MoeSpec& model, Seed seed);
std::unique_ptr<ExpertLoadSource> make_imbalance_source(ConfigReader& in, const MoeSpec& model, Seed seed);

}  // namespace epsim
