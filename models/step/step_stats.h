// Totals of a run by layer, GPU and link, whoever puts its steps together.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "models/network/network.h"
#include "models/network/traffic.h"
#include "models/step/layer_costs.h"
#include "sim/domain/step.h"

namespace epsim {

class StepStats {
 public:
  StepStats(const MoeSpec& model, int gpus, const Network& network);

  // What GPUs execute in MoE layer `l`. `weight` is the share of a step's tokens: a step in two batches has two halves
  // of each layer, and the balancedness of the step is the mean of both.
  void load(int l, const TrafficMatrix& traffic, const PriceRow& experts, double weight);
  void dropped(double assignments) { totals_.assignments_dropped += assignments; }
  void rerouted(double assignments) { totals_.assignments_rerouted += assignments; }
  void routed(double assignments) { totals_.assignments_routed += assignments; }
  void policy_acted(bool acted) { totals_.policy_acted = totals_.policy_acted || acted; }
  void step_of(std::int64_t tokens) { totals_.largest_step = std::max(totals_.largest_step, tokens); }
  void time(int l, LayerPart part, Ticks time) {
    layer_ticks_[static_cast<std::size_t>(l)][static_cast<std::size_t>(part)] += time.count();
  }
  // Which links set the time of layer `l`'s exchanges.
  void bottlenecks(int l, const MoeLayerCost& cost);
  void straggler(int l, Seconds waiting) { totals_.layers[static_cast<std::size_t>(l)].straggler += waiting; }
  void end_step() {
    ++totals_.steps;
    totals_.balancedness.end_step();
  }

  // Bytes by link, in the order of Network::links(); pricers of exchanges add to it.
  std::vector<double>& link_bytes() { return link_bytes_; }
  const StepTotals& totals();

 private:
  StepTotals totals_;
  std::vector<std::array<std::int64_t, kLayerParts>> layer_ticks_;  // [MoE layer]
  std::vector<double> link_bytes_;
};

}  // namespace epsim
