// What a policy asks for and whether it fits: everything short of running.
#pragma once

#include <vector>

#include "models/memory/memory_model.h"
#include "sim/cluster/plan_cache.h"
#include "sim/domain/placement.h"
#include "sim/scenario/scenario.h"

namespace epsim {

// Of the instances of one pool.
struct PreparedInstance {
  InstancePool pool;
  PolicyChoice policy;  // as this pool runs it
  PlacementPlan plan;
  Placement placement;
  MemoryBreakdown memory;            // of the fullest GPU
  ServingOptions serving;            // with the KV pool that is left
  Bytes buffers{};                   // on every GPU, for weights brought in during the run; 0 where they take no room
  std::vector<SourceShares> shares;  // that the placement was built with; empty: copies share evenly
};

struct PreparedRun {
  std::vector<PreparedInstance> pools;  // [pool of the deployment], at least one
  // Whose KV pool and memory a report shows: decode instances, where there are any.
  const PreparedInstance& last() const { return pools.back(); }
};

// The loads that a policy may plan from.
const LoadWindow& planning_window(const Scenario& scenario, const PolicyChoice& policy);

// Plans, checks memory, sizes the KV pools. Throws InputError or DoesNotFit. `plans`: what other runs of the same study
// have planned; null: this run stands alone.
PreparedRun prepare_run(const Scenario& scenario, const PolicyChoice& policy, PlanCache* plans = nullptr);

}  // namespace epsim
