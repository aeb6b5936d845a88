#include "sim/step/weight_moves.h"

#include <algorithm>
#include <limits>

#include "models/network/make_network.h"
#include "sim/core/check.h"

namespace epsim {
namespace {

// Whatever carries the tokens, weights travel by NCCL's point-to-point messages.
NetworkOptions by_nccl(NetworkOptions options) {
  options.transport = Transport::kNcclP2p;
  return options;
}

}  // namespace

WeightMoves::WeightMoves(const MoeSpec& model, const ClusterSpec& cluster, int moe_tp, const NetworkProfile& profile,
                         const NetworkOptions& options, double efficiency)
    : shape_(shape_of(cluster)),
      ranks_{shape_.gpus / moe_tp, std::max(1, shape_.gpus_per_node / moe_tp)},
      moe_tp_(moe_tp),
      expert_(model.expert_bytes() / moe_tp),
      efficiency_(efficiency),
      network_(make_network(cluster, profile, by_nccl(options))) {}

// In experts instead of rows. A link at a share of its rate carries its copies as if they were that many more.
LayerTraffic WeightMoves::traffic_of(const LayerMove& move, const StepConditions& conditions) const {
  const auto gpus = static_cast<std::size_t>(shape_.gpus);
  const std::vector<double> none(gpus, 0.0);
  LayerTraffic out{.executed = {},
                   .touched = {},
                   .intra_out = none,
                   .intra_in = none,
                   .inter_out = none,
                   .inter_in = none,
                   .pairs = std::vector<double>(network_->needs_pairs() ? gpus * gpus : 0, 0.0)};
  const auto slowness = [&](std::size_t gpu, bool inside) {
    const double link = conditions.link_speed.empty() ? 1.0 : conditions.link_speed[gpu];
    return 1.0 / (inside || conditions.nic_speed.empty() ? link : link * conditions.nic_speed[gpu]);
  };
  for (const CopyMove& copy : move.copies) {
    const auto from = static_cast<std::size_t>(copy.from_gpu), to = static_cast<std::size_t>(copy.to_gpu);
    const bool near = shape_.node_of(copy.from_gpu) == shape_.node_of(copy.to_gpu);
    (near ? out.intra_out : out.inter_out)[from] += slowness(from, near);
    (near ? out.intra_in : out.inter_in)[to] += slowness(to, near);
    if (!out.pairs.empty()) {
      out.pairs[from * gpus + to] += std::max(slowness(from, near), slowness(to, near));
    }
  }
  return out;
}

std::vector<LayerMove> WeightMoves::plan(const PlacementPlan& next, const PlacementPlan& previous,
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
      const LayerTraffic traffic = traffic_of(move, conditions);
      const Price price = network_->all_to_all(traffic, expert_, Direction::kDispatch, not_counted).price;
      move.price = piece_of({price.time / efficiency_, price.origin});
    }
  }
  return out;
}

void WeightMoves::count(const LayerMove& move, std::vector<double>& link_bytes) const {
  EPSIM_CHECK(link_bytes.size() == network_->links().size(), "weights travel over the links that tokens do");
  if (!move.copies.empty()) {
    network_->all_to_all(traffic_of(move, {}), expert_, Direction::kDispatch, link_bytes);
  }
}

}  // namespace epsim
