// Time of one step of an instance in closed form: nothing overlaps and the exchanges of tokens wait for the slowest GPU
// (barrier synchronisation).
//
//   step = sum over MoE layers of  ranks -> dispatch -> experts -> combine, then the rest of the ranks' work
//     ranks    the slowest DP rank's dense layers since the last MoE layer, attention and gate: ranks meet nowhere else
//     experts  the slowest DP rank's slowest GPU, then the rank's shared experts; of those that run beside gate and routed
//              experts, what they take longer than these, and no less than their weights take to read
//     rest     dense layers after the last MoE layer, output head
//   Ignores: overlap of any kind, pairwise synchronisation (task graphs of sim/step), the CPU.
//   Every piece is a whole number of picoseconds, so that a task graph of the same pieces takes exactly as long.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "models/network/traffic.h"
#include "models/step/layer_costs.h"
#include "models/step/step_stats.h"
#include "models/step/step_sum.h"
#include "sim/domain/placement.h"
#include "sim/domain/step.h"
#include "sim/domain/step_draws.h"
#include "sim/domain/step_recorder.h"

namespace epsim {

class StepModel final : public StepPricer {
 public:
  // Keeps references to `placement`, `loads` and what `together` points at; all outlive the model. `together`: what experts
  // used together save of the rows that are sent once (JointUse).
  StepModel(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
            const DispatchOptions& dispatch, const Placement& placement, const ExpertLoadSource& loads,
            const ComputeProfile& compute, const NetworkProfile& network, const UsedTogether& together = {});

  StepCost price(const StepAt& at, std::span<const RankBatch> ranks) override;
  void set_conditions(const StepConditions& conditions) override;
  // For the steps from now on: another placement of the same experts on the same GPUs. It outlives the model.
  void set_placement(const Placement& placement);
  // Models that price the same steps draw their loads once. `draws` is from the same source.
  void share_draws(std::shared_ptr<StepDraws> draws);
  const std::shared_ptr<StepDraws>& draws() const { return draws_; }
  // Null (the default): nobody listens.
  void record_to(StepRecorder* recorder) { recorder_ = recorder; }
  // Totals over all steps priced so far.
  const StepTotals& totals() { return stats_.totals(); }

  // For a pricer that puts the same pieces together in another way. begin() draws the loads of a step, or of one of the
  // `batches` that it is split into, and prices the ranks' pieces; layer() then prices MoE layer `l`, once each, and
  // enters its load and bytes into the stats.
  void begin(const StepAt& at, std::span<const RankBatch> ranks, int batches = 1);
  const std::vector<RankCost>& ranks() const { return ranks_; }
  const MoeLayerCost& layer(int l);
  // What shared experts take after routed ones, whose prices are `experts` [GPU].
  void shared_after(const PriceRow& experts, std::vector<TickCost>& out) const;  // [DP rank]
  const StepLoads& loads() const { return *step_loads_; }                        // as begin() drew them
  const TrafficMatrix& traffic() const { return priced_->traffic; }              // of the layer priced last
  JointPowers joint_powers(int l) const { return traffic_models_[costs_.way()].joint_powers(l); }
  const LayerCosts& costs() const { return costs_; }
  StepStats& stats() { return stats_; }
  // Dense layers between MoE layer l and the one before; for l = MoE layers, those after the last.
  int model_layer(int l) const;  // number of MoE layer l in the model; for l = MoE layers, one past the last layer
  // What a recorder is told of MoE layer l's dispatch or combine. The result refers to `traffic`.
  StepExchange exchange_of(int l, LayerPart part, int batch, const TrafficMatrix& traffic,
                           const MoeLayerCost& cost) const;
  int dense_before(int l) const { return dense_before_[static_cast<std::size_t>(l)]; }

 private:
  // The ranks' work between two exchanges, for the slowest of them.
  struct Stretch {
    std::size_t rank = 0;
    Ticks length{};
    Seconds waiting{};  // of the mean rank
    Seconds own{};      // of that, in the MoE layer itself: the rest is in the dense layers before it
  };
  // An MoE layer of a step, which the next steps take as it is where they take the same draw.
  struct PricedLayer {
    std::uint64_t draw = 0;  // StepDraws::last(); 0: to be priced
    TrafficMatrix traffic;
    MoeLayerCost cost;
    std::vector<double> link_bytes;
  };
  bool holds_draws() const { return draws_->source().hold_steps() > 1; }
  void forget_layers();
  Stretch slowest_rank(int dense_layers, bool last) const;
  void moe_layer(int l, StepSum& sum);
  void experts_stretch(int l, StepSum& sum);
  void record_ranks(int l, int dense_layers, Ticks start) const;
  void record_layer(int l, Ticks start) const;

  std::shared_ptr<StepDraws> draws_;
  LayerCosts costs_;
  ClusterShape shape_;
  UsedTogether together_;
  std::vector<TrafficModel> traffic_models_;  // of the placement at hand, for each way that tokens travel
  StepStats stats_;
  StepRecorder* recorder_ = nullptr;
  std::vector<int> moe_numbers_;   // [MoE layer] in the model
  std::vector<int> dense_before_;  // [MoE layers + 1]
  // Scratch of one step.
  int batches_ = 1;
  bool shared_beside_ = false;
  std::vector<std::int64_t> tokens_, decodes_;  // of the step, by DP rank
  double assignments_ = 0;                      // of the step in an MoE layer, padding included
  PaddedLoads padded_;                          // where buffers have a capacity
  std::vector<RankCost> ranks_;
  std::vector<TickCost> shared_;           // [DP rank] after the routed experts of the layer priced last
  std::vector<Stretch> stretches_;         // [dense layers before an MoE layer]
  const StepLoads* step_loads_ = nullptr;  // what draws_ has drawn, or padded_
  std::vector<PricedLayer> layers_;        // [MoE layer] where draws are held, else the one priced last
  PricedLayer* priced_ = nullptr;
};

}  // namespace epsim
