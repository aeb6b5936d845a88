// The runs of a capacity search: a deployment as a scenario, and the answer of one run, kept in the study's store.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "sim/cluster/plan_cache.h"
#include "sim/core/config.h"
#include "sim/study/capacity_control.h"

namespace epsim {

// The document of such pools: one, or prefill and decode. Throws InputError.
Config capacity_scenario(const CapacityQuestion& question, const std::vector<CapacityPool>& pools);

class CapacityRuns {
 public:
  CapacityRuns(const CapacityQuestion& question, const CapacityControl& control)
      : question_(question), control_(control) {}

  // The pools at `rate`, with as many requests as it takes to tell. `alone`: of the same layout, what tells how long a
  // run may take. `cut`: every answer has two tokens.
  CapacityAnswer ask(const std::vector<CapacityPool>& pools, double rate, const CapacityAnswer& alone,
                     bool cut = false);
  // A request that is alone in the system and has the fewest tokens. Of the point's SLO, `excess`, `limit` and `holds`
  // count.
  CapacityAnswer alone(const std::vector<CapacityPool>& pools, bool cut = false);
  // Instances that the rate takes at least: the matrix products of experts and FFNs at the GPUs' peak rate. Throws
  // InputError and DoesNotFit where the design cannot run.
  int bound(const CapacityPool& pool, double rate);
  std::vector<GoodputSearch> search(const std::vector<CapacityPool>& pools, double rate);
  std::int64_t runs() const { return runs_; }

 private:
  CapacityAnswer kept(const std::string& what, const std::vector<CapacityPool>& pools, double rate,
                      const std::function<CapacityAnswer()>& run);

  const CapacityQuestion& question_;
  const CapacityControl& control_;
  PlanCache plans_;
  std::mutex turn_;
  std::atomic<std::int64_t> runs_{0};
};

}  // namespace epsim
