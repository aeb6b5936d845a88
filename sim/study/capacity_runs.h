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

// What a run is to tell. An instance at its share of the rate, with as few requests as tell most designs apart: the last
// instance more or less hangs on the run of the whole deployment, which has as many as it takes.
enum class AskedFor { kInstance, kPrompts, kDeployment };  // kPrompts: of answers that are cut to two tokens

class CapacityRuns {
 public:
  CapacityRuns(const CapacityQuestion& question, const CapacityControl& control)
      : question_(question), control_(control) {}

  // The pools at `rate`, with as many requests as it takes to tell. `alone`: of the same layout, what tells how long a
  // run may take.
  CapacityAnswer ask(const std::vector<CapacityPool>& pools, double rate, const CapacityAnswer& alone,
                     AskedFor what = AskedFor::kInstance);
  // A request that is alone in the system and has the fewest tokens. Of the point's SLO, `excess`, `limit` and `holds`
  // count.
  CapacityAnswer alone(const std::vector<CapacityPool>& pools, bool cut = false);
  // Instances that the rate takes at least: the matrix products of experts and FFNs at the GPUs' peak rate. Throws
  // InputError and DoesNotFit where the design cannot run.
  int bound(const CapacityPool& pool, double rate);
  std::vector<GoodputSearch> search(const std::vector<CapacityPool>& pools, double rate);
  std::int64_t runs() const { return runs_; }
  // For who follows the search: a design has its place in the ledger; a deployment holds with fewer nodes than before.
  void settled();
  void found(const std::vector<CapacityPool>& pools);

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
