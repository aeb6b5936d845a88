// One instance of a model: its DP ranks step together, and every rank takes part in each step, with a batch or idle. A
// step starts when the previous one has ended, or with what gives an idle instance work; the fleet keeps the clock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/cluster/loss.h"
#include "sim/cluster/run_control.h"
#include "sim/cluster/run_result.h"
#include "sim/cluster/run_tally.h"
#include "sim/core/fingerprint.h"
#include "sim/domain/step.h"
#include "sim/scheduler/router.h"
#include "sim/scheduler/scheduler.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

// What an instance is made of. All of it outlives the run.
struct InstanceSpec {
  ServingOptions options;
  StepPricer* pricer = nullptr;
  // The links that prompts leave a prefill instance by, or reach a decode instance. A rank uses lane (rank /
  // ranks_per_lane). On a prefill instance a lane carries one prompt after another; `transfer_time` is what a prompt of
  // so many tokens takes at a share of the links' rate, and `lane_speed` that share of a lane at a time, 1 if empty.
  int ranks_per_lane = 1;
  std::function<Seconds(std::int64_t, double)> transfer_time;
  std::function<double(int, Ticks)> lane_speed = {};
  // By time. `on_loss` is told the position of one that takes effect, for the pricer; it returns for how much longer
  // the instance stands still, or nothing where it cannot go on for lack of an expert.
  std::vector<Loss> losses = {};
  std::function<std::optional<Ticks>(std::size_t)> on_loss = {};
};

class Instance {
 public:
  // `ranks` are instance `number`'s, in the order of their numbers.
  Instance(const InstanceSpec& spec, std::int32_t number, std::span<const std::unique_ptr<Scheduler>> ranks);

  // Routes the request to one of the ranks; returns which.
  std::size_t enqueue(std::int32_t request);
  std::size_t enqueue_remote(std::int32_t request);

  // Forms the batches of a step that starts now and prices it. Zero when no rank can do anything: then no step runs.
  Ticks start_step(Ticks now, const RunControl& control, RunTally& tally, Fingerprint& fingerprint);
  // Ends the step under way; returns how many requests ended with it.
  std::int64_t end_step(Ticks now, RunTally& tally);

  bool any_work() const;
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
  bool stepping = false;  // under way
  Ticks blocked_until{};  // no step begins before
  // A rank is left. An instance that is lost has none.
  bool alive() const;

 private:
  struct Formed {
    std::int64_t tokens = 0, kv_blocks = 0;
    bool blocked = false;
  };
  Formed form_batches(Ticks now, RunTally& tally, Fingerprint& fingerprint);
  StepCost price(Ticks now, const RunControl& control);

  const InstanceSpec& spec_;
  std::int32_t number_;
  std::span<const std::unique_ptr<Scheduler>> ranks_;
  RequestRouter router_;
  std::vector<RankBatch> batches_;
  InstanceTotals totals_;
};

}  // namespace epsim
