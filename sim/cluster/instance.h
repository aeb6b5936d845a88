// One instance of a model: its DP ranks step together, and every rank takes part in each step, with a batch or idle. A
// step starts when the previous one has ended, or with what gives an idle instance work; the fleet keeps the clock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/step/eager_work.h"
#include "sim/cluster/instance_model.h"
#include "sim/cluster/kv_lanes.h"
#include "sim/cluster/run_control.h"
#include "sim/cluster/run_counters.h"
#include "sim/cluster/run_result.h"
#include "sim/core/fingerprint.h"
#include "sim/domain/step.h"
#include "sim/scheduler/prefill_alignment.h"
#include "sim/scheduler/router.h"
#include "sim/scheduler/scheduler.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

// What an instance is made of. What it points at outlives the run.
struct InstanceSpec {
  ServingOptions options;
  InstanceModel* model = nullptr;
  std::array<EagerWork, 2> eager = {};  // the host's in a step without prompts, and with
  // Of prefill and decode instances. A rank uses lane (rank / ranks_per_lane).
  const KvPath* path = nullptr;
  int ranks_per_lane = 1;
  std::vector<HardwareChange> changes = {};  // by time
};

class Instance {
 public:
  // `ranks` are instance `number`'s, in the order of their numbers.
  Instance(const InstanceSpec& spec, std::int32_t number, std::span<const std::unique_ptr<Scheduler>> ranks);

  // Routes the request to one of the ranks; returns which.
  std::size_t enqueue(std::int32_t request);
  std::size_t enqueue_remote(std::int32_t request);

  // A step wants to begin, and may not yet: it waits for the plan or the weights that the model brings.
  bool holds_step(Ticks now);
  // Forms the batches of a step that starts now and prices it. Zero when no rank can do anything: then no step runs, and
  // another pass follows after kIdlePass where prompts are held back.
  Ticks start_step(Ticks now, const RunControl& control, RunCounters& counters, Fingerprint& fingerprint);
  // Ends the step under way; returns how many requests ended with it.
  std::int64_t end_step(Ticks now, RunCounters& counters);

  bool any_work() const;
  bool holds_prompts() const { return holds_prompts_; }  // in the latest pass
  void on_idle();
  std::int64_t outstanding_tokens() const;
  // Most that any rank holds of the request's input in its prefix cache.
  std::int64_t cached_tokens(std::int32_t request) const;

  InstanceRole role() const { return spec_.options.role; }
  const InstanceSpec& spec() const { return spec_; }
  std::span<const std::unique_ptr<Scheduler>> ranks() const { return ranks_; }
  const InstanceTotals& totals() const { return totals_; }
  // A step is under way or due.
  bool step_expected = false;
  bool stepping = false;                  // under way
  Ticks blocked_until{};                  // no step begins before
  std::optional<Ticks> arrival_expected;  // of a plan or of weights; an event of another time is void
  // A rank is left. An instance that is lost has none.
  bool alive() const;

 private:
  struct Formed {
    std::int64_t tokens = 0, kv_blocks = 0;
    bool blocked = false;
  };
  bool align_prompts();
  Formed form_batches(Ticks now, RunCounters& counters, Fingerprint& fingerprint);
  StepCost price(Ticks now, const RunControl& control);

  const InstanceSpec& spec_;
  std::int32_t number_;
  std::span<const std::unique_ptr<Scheduler>> ranks_;
  RequestRouter router_;
  PrefillGate gate_;
  bool holds_prompts_ = false;
  std::vector<RankBatch> batches_;
  InstanceTotals totals_;
  std::optional<Ticks> held_since_;
};

}  // namespace epsim
