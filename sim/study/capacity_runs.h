// The runs of a capacity search: a deployment as a scenario, and the answer of one run, kept in the study's store.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "sim/cluster/plan_cache.h"
#include "sim/study/capacity_control.h"

namespace epsim {

// What a run answers. kInstance and kPrompts (answers cut to two tokens): an instance at its share of the demand, with
// as few requests as separate most designs. kLong: as kInstance with as many requests as the verdict takes.
// kDeployment: all instances behind their router, every step with its own draw of routing.
enum class AskedFor { kInstance, kPrompts, kLong, kDeployment };

class CapacityRuns {
 public:
  CapacityRuns(const CapacityQuestion& question, const CapacityControl& control)
      : question_(question), control_(control) {}

  // The pools under every `one_in`-th request of the demand: what one instance of so many gets from a router that takes
  // them in turn. `growth`: of the demand, as a share. `alone`, of the same layout, bounds how long a run may take.
  CapacityAnswer ask(const std::vector<CapacityPool>& pools, int one_in, const CapacityAnswer& alone,
                     AskedFor what = AskedFor::kInstance, double growth = 0);
  // A request that is alone in the system and has the fewest tokens. Of the point's SLO, `excess`, `limit` and `holds`
  // count.
  CapacityAnswer alone(const std::vector<CapacityPool>& pools, bool cut = false);
  // Instances that the rate takes at least: the matrix products of experts and FFNs at the GPUs' peak rate. Throws
  // InputError and DoesNotFit where the design cannot run.
  int bound(const CapacityPool& pool);
  // By seed: the highest rate of such pools under every `one_in`-th request.
  std::vector<GoodputSearch> search(const std::vector<CapacityPool>& pools, int one_in);
  // Of a deployment that was run as a whole, whose word counts more than an instance's. Of a prefill pool alone: that
  // of a deployment in which it was short.
  const CapacityAnswer* whole(const std::vector<CapacityPool>& pools) const;
  void set_whole(const std::vector<CapacityPool>& pools, CapacityAnswer answer);
  const CapacityQuestion& question() const { return question_; }
  const CapacityControl& control() const { return control_; }
  std::int64_t runs() const { return runs_; }
  // For who follows the search: a design has a verdict, told once even where it is asked again; a deployment holds and
  // is better than before.
  void settled(const CapacityDesign& design);
  void found(const std::vector<CapacityPool>& pools);

 private:
  CapacityAnswer kept(const std::string& what, const std::vector<CapacityPool>& pools, int one_in, double growth,
                      const std::function<CapacityAnswer()>& run);

  const CapacityQuestion& question_;
  const CapacityControl& control_;
  PlanCache plans_;
  std::map<std::string, CapacityAnswer> answers_;  // by name in the store
  std::map<std::string, CapacityAnswer> wholes_;   // by the deployment's fingerprint
  std::set<std::string> settled_;                  // names of designs
  std::mutex turn_;
  std::atomic<std::int64_t> runs_{0};
};

}  // namespace epsim
