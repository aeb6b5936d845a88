// Hardware that slows down during a run: the scenario's `faults:`, a list of
//
//   {at: 10s, gpu: 3, speed: 0.5}                       a straggler: everything on GPU 3 takes twice as long from 10 s
//   on {at: 20s, until: 30s, node: 1, link_speed: 0.25}    ports and NICs of a node at a quarter of their rate for a
//   while
//
//   Models : GPUs and links at a share of their speed, from the first step that begins at or after `at` to the last
//   that
//            begins before `until`. Faults of one GPU multiply. A rank waits for its slowest GPU, an exchange for its
//            busiest link, so one straggler slows the instance.
//   Ignores: lost GPUs (a speed of 0 is refused), detection and recovery, copies of weights by per-step policies, which
//            keep the full rate of their links.
#pragma once

#include <limits>
#include <vector>

#include "sim/core/config.h"
#include "sim/core/units.h"
#include "sim/domain/cluster_spec.h"
#include "sim/domain/step.h"

namespace epsim {

struct Fault {
  Ticks at{};
  Ticks until{std::numeric_limits<std::int64_t>::max()};  // not included
  int first_gpu = 0, gpus = 1;
  double speed = 1.0, link_speed = 1.0;
};

// Reads the list `faults` of the scenario; none by default.
std::vector<Fault> read_faults(ConfigReader& root, const ClusterSpec& cluster);

// What holds at `now`; empty vectors where nothing does.
StepConditions conditions_at(const std::vector<Fault>& faults, Ticks now, int gpus);

// Prices steps on the hardware as it is when they begin.
class FaultyPricer final : public StepPricer {
 public:
  // Keeps references to both.
  FaultyPricer(StepPricer& pricer, const std::vector<Fault>& faults, int gpus)
      : pricer_(pricer), faults_(faults), gpus_(gpus) {}

  void advance_to(Ticks now) override;
  StepCost price(std::int64_t step, std::span<const RankBatch> ranks) override { return pricer_.price(step, ranks); }

 private:
  StepPricer& pricer_;
  const std::vector<Fault>& faults_;
  int gpus_;
  std::vector<bool> active_;  // [fault]
};

}  // namespace epsim
