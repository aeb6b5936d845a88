#include "sim/cluster/rebalance_price.h"

#include "policies/rebalance/keep_in_place.h"
#include "sim/scenario/rebalance_options.h"
#include "sim/scheduler/engines.h"
#include "sim/step/migration_cost.h"

namespace epsim {

RebalancePrice price_rebalance(const Scenario& s, const PreparedInstance& next, const PreparedInstance& previous) {
  const RebalanceOptions usual;
  const InstancePool& pool = next.pool;
  const MigrationCost cost(s.model, pool.cluster, pool.parallelism.moe_tp, s.network, pool.dispatch.network,
                           usual.move_efficiency, find_engine(pool.serving.engine).rebalanced_layer.value);
  const PlacementPlan renamed =
      keep_in_place(next.plan, previous.plan, shape_of(pool.cluster).gpus_per_node, *usual.keep);
  RebalancePrice out{{}, usual.planning_time};
  for (const LayerMove& move : cost.plan(renamed, previous.plan, {})) {
    out.pause += to_seconds(move.price.time);
    out.moved += cost.expert_bytes() * static_cast<double>(move.copies.size());
  }
  return out;
}

}  // namespace epsim
