// The plans that the runs of one study share: each is made once per (policy, window, shape).
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "sim/domain/placement_plan.h"
#include "sim/scenario/scenario.h"

namespace epsim {

// A policy is told by its entry in the resolved scenario, a window by its content: scenarios that differ in neither
// share a plan, under whatever labels. Safe to use from several threads; belongs to one study.
class PlanCache {
 public:
  // What `policy`, one of the scenario's, plans from the window. Made by the first that asks, while others wait; an
  // error goes to each that asks.
  PlacementPlan plan(const Scenario& scenario, const PolicyChoice& policy, const LoadWindow& window,
                     const ClusterShape& shape);
  // How many plans were asked of policies.
  std::int64_t made() const { return made_; }

 private:
  using Key = std::tuple<std::string, std::uint64_t, int, int>;  // policy, window, GPUs, GPUs per node

  std::mutex turn_;
  std::map<Key, std::shared_future<PlacementPlan>> plans_;
  std::atomic<std::int64_t> made_{0};
};

}  // namespace epsim
