// What moving experts' weights between GPUs during a run takes: layer after layer, each layer's copies in one exchange.
//
//   Models : point-to-point messages of whole experts over ports and NICs, priced as an all-to-all of NCCL on the
//            cluster's network, base latency included, at the share `efficiency` of its pace; links that a fault slows
//            at their rate when the move is planned. Beside that, for each layer that moves, `layer_time` of the hosts.
//   Source : SGLang's expert_location_updater.py and vLLM's rearrange_expert_weights_inplace: batched isend/irecv, one
//            layer at a time.
//   Ignores: copies from a GPU to itself, and from the buffer into place (memory bandwidth, three orders above NICs).
#pragma once

#include <vector>

#include "models/network/network.h"
#include "models/step/layer_costs.h"
#include "policies/rebalance/migration.h"
#include "sim/domain/moe_spec.h"

namespace epsim {

// One layer's copies that travel, from GPU to GPU; empty where all that the layer needs is on its GPU already.
struct LayerMove {
  std::vector<CopyMove> copies;
  TickCost price;
};

class MigrationCost {
 public:
  // `moe_tp`: GPUs of an EP rank, which each send their share of an expert to the GPU of the same place in another
  // rank.
  MigrationCost(const MoeSpec& model, const ClusterSpec& cluster, int moe_tp, const NetworkProfile& profile,
                const NetworkOptions& options, double efficiency = 1, Seconds layer_time = {});

  // [layer] from `previous` to `next`, which are plans for EP ranks.
  std::vector<LayerMove> plan(const PlacementPlan& next, const PlacementPlan& previous,
                              const StepConditions& conditions) const;
  // Adds what the move puts on each link, in the order of the network's links.
  void count(const LayerMove& move, std::vector<double>& link_bytes) const;
  Bytes expert_bytes() const { return expert_; }  // of what travels between two GPUs as one copy

 private:
  TrafficMatrix traffic_of(const LayerMove& move) const;

  ClusterShape shape_, ranks_;  // GPUs; EP ranks
  int moe_tp_;
  Bytes expert_;
  double efficiency_;
  Seconds layer_time_;
  std::unique_ptr<Network> network_;
};

}  // namespace epsim
