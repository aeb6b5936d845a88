// Time of one step of an instance, layer by layer, in closed form: nothing overlaps and every collective waits for the
// slowest GPU (barrier synchronisation).
//
//   step = sum over layers of  attention -> dense FFN                              (dense layers)
//                              attention -> gate -> dispatch -> experts -> shared experts -> combine   (MoE layers)
//          + output head
//   Between parts a GPU holds its share of the rank's tokens; attention and split dense and shared FFNs work on all of
//   them, so each has an all-gather before and a reduce-scatter after.
//   Ignores: overlap of any kind, pairwise synchronisation (both are event-driven), the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/compute/roofline.h"
#include "models/network/traffic.h"
#include "models/network/two_tier.h"
#include "sim/domain/moe_spec.h"
#include "sim/domain/parallelism.h"
#include "sim/domain/placement.h"
#include "sim/domain/step.h"
#include "sim/domain/step_loads.h"

namespace epsim {

// How expert parallelism exchanges tokens.
struct DispatchOptions {
  Dedup dedup = Dedup::kGpu;    // CRAFT's peer-to-peer dispatch: one row per (token, GPU)
  double dispatch_bytes = 2;    // bytes per element out (bf16; fp8 dispatch: 1)
  double combine_bytes = 2;     // and back
  bool exchange_counts = true;  // sizes are not known before the gate: one more latency ahead of the dispatch
};

class StepModel final : public StepPricer {
 public:
  // Keeps references to `placement` and `loads`; both outlive the model.
  StepModel(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
            const DispatchOptions& dispatch, const Placement& placement, const LoadSource& loads,
            ComputeProfile compute, NetworkProfile network);

  StepCost price(std::int64_t step, std::span<const RankBatch> ranks) override;
  // Totals over all steps priced so far.
  const StepTotals& totals();

 private:
  // What every layer of a step has in common.
  struct Common {
    Price attention, gate, shared, dense;
    Seconds attention_straggler{}, shared_straggler{}, dense_straggler{};  // attention: with the gate
  };
  Common common_parts(std::span<const RankBatch> ranks) const;
  Price attention_of(const RankBatch& batch) const;
  Price with_reduction(Price part, Sharding sharding, std::int64_t tokens) const;
  void moe_layer(int l, const Common& common, StepCost& cost);

  MoeSpec model_;
  Parallelism parallelism_;
  DispatchOptions dispatch_;
  const Placement& placement_;
  const LoadSource& loads_;
  ComputeModel compute_;
  TwoTierNetwork network_;
  FlopsPerSecond peak_;
  TrafficModel traffic_model_;
  // Scratch of one step, and totals of the run.
  std::vector<std::int64_t> tokens_;
  std::int64_t step_tokens_ = 0;
  StepLoads step_loads_;
  LayerTraffic traffic_;
  std::vector<double> link_bytes_;
  StepTotals totals_;
};

}  // namespace epsim
