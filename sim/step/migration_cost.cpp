#include "sim/step/migration_cost.h"

#include <algorithm>
#include <limits>

#include "models/network/make_network.h"
#include "sim/core/check.h"

namespace epsim {
namespace {

// Whatever carries the tokens, weights travel by NCCL's point-to-point messages.
NetworkOptions by_nccl(NetworkOptions options) {
  options.pxn = options.pxn || options.transport != Transport::kNcclP2p;  // its default, unless the scenario says more
  options.transport = Transport::kNcclP2p;
  return options;
}

}  // namespace

MigrationCost::MigrationCost(const MoeSpec& model, const ClusterSpec& cluster, int moe_tp,
                             const NetworkProfile& profile, const NetworkOptions& options, double efficiency,
                             Seconds layer_time)
    : shape_(shape_of(cluster)),
      ranks_{shape_.gpus / moe_tp, std::max(1, shape_.gpus_per_node / moe_tp)},
      moe_tp_(moe_tp),
      expert_(model.expert_bytes() / moe_tp),
      efficiency_(efficiency),
      layer_time_(layer_time),
      network_(make_network(cluster, profile, by_nccl(options))) {}

// In experts instead of rows.
TrafficMatrix MigrationCost::traffic_of(const LayerMove& move) const {
  TrafficMatrix out;
  out.clear(shape_);
  for (const CopyMove& copy : move.copies) {
    out.add(copy.from_gpu, copy.to_gpu, 1.0);
  }
  return out;
}

std::vector<LayerMove> MigrationCost::plan(const PlacementPlan& next, const PlacementPlan& previous,
                                           const StepConditions& conditions) const {
  std::vector<LayerMove> out(next.layers.size());
  const MigrationPlan moves = plan_migration(next, previous, ranks_, std::numeric_limits<int>::max());
  for (const std::vector<CopyMove>& batch : moves.batches) {
    for (const CopyMove& copy : batch) {
      for (int i = 0; i < moe_tp_ && copy.from_gpu != copy.to_gpu; ++i) {
        CopyMove& part = out[static_cast<std::size_t>(copy.layer)].copies.emplace_back(copy);
        part.from_gpu = copy.from_gpu * moe_tp_ + i;
        part.to_gpu = copy.to_gpu * moe_tp_ + i;
      }
    }
  }
  std::vector<double> not_counted(network_->links().size());
  for (LayerMove& move : out) {
    if (!move.copies.empty()) {
      const TrafficMatrix traffic =
          network_->slowed(traffic_of(move), Direction::kDispatch, conditions.link_speed, conditions.nic_speed);
      const Price price = network_->all_to_all(traffic, expert_, Direction::kDispatch, not_counted).price;
      move.price = tick_cost({price.time / efficiency_ + layer_time_, price.origin});
    }
  }
  return out;
}

void MigrationCost::count(const LayerMove& move, std::vector<double>& link_bytes) const {
  EPSIM_CHECK(link_bytes.size() == network_->links().size(), "weights travel over the links that tokens do");
  if (!move.copies.empty()) {
    network_->all_to_all(traffic_of(move), expert_, Direction::kDispatch, link_bytes);
  }
}

}  // namespace epsim
