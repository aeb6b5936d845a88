// An instance's experts when its GPUs go or come back: which copies are in place then, and what bringing them costs.
//
//   Models : the instance stands still while copies are made again: from GPUs that have one, over the links, layer after
//            layer (migration_cost.h), and from outside (host memory, storage) at `reload_rate` for each GPU, at the same
//            time; the longer of the two counts. GPUs keep the slots that the first plan gave them: what is lost is
//            made again in the place of others' further copies, never out of the KV cache, as engines allocate both
//            once.
//   Ignores: weights besides routed experts that a GPU which comes back loads: part of the declared times.
#pragma once

#include <optional>
#include <vector>

#include "policies/rebalance/elastic.h"
#include "sim/cluster/regroup_report.h"
#include "sim/scenario/scenario.h"
#include "sim/step/migration_cost.h"

namespace epsim {

class ExpertRecovery {
 public:
  // Of an instance of the pool. `first`: the plan that the run starts with. Scenario and pool outlive it.
  ExpertRecovery(const Scenario& scenario, const InstancePool& pool, PlacementPlan first);

  // From now on these EP ranks are gone. `plan` is what is in place, and becomes what is then; where that leaves an
  // expert without a copy that cannot be made again, none is returned. Bytes that move are added to `link_bytes`, in
  // the order of the network's links.
  std::optional<Ticks> recover(PlacementPlan& plan, const LostGpus& lost, const LoadWindow& loads,
                               const StepConditions& conditions, std::vector<double>& link_bytes);

  const PlacementPlan& first() const { return first_; }
  const LostGpus& lost() const { return lost_; }
  const RegroupReport& report() const { return report_; }

 private:
  std::optional<PlacementPlan> next_plan(const PlacementPlan& plan, const LostGpus& now, const LoadWindow& loads) const;
  bool bring(const PlacementPlan& next, const PlacementPlan& held, const LostGpus& before,
             const StepConditions& conditions, std::vector<double>& link_bytes, Ticks& time);

  const Scenario& scenario_;
  const InstancePool& pool_;
  PlacementPlan first_;
  PlacementPlan last_;  // the slots that each GPU had when it was there last: a GPU that comes back has them again
  LostGpus lost_;
  MigrationCost moves_;
  RegroupReport report_;
};

}  // namespace epsim
