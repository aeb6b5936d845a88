// One instance of a model: its DP ranks step together, and every rank takes part in each step, with a batch or idle. A
// step starts when the previous one has ended, or with what gives an idle instance work; the deployment keeps the
// clock.
//
// Where the schedule overlaps, the host puts batch i + 1 together while step i runs: it launches batch i, looks at the
// tokens of step i - 1, takes in what has arrived, and puts the next batch together. So batch i + 1 knows the ends of
// requests up to step i - 1. When the host gets to the tokens of step i - 1 depends on the launch of step i:
//   replayed from a CUDA graph, or launched ahead of the GPU: when step i - 1 ends; what arrives during step i runs in
//   step i + 2;
//   held by the GPU to its end (a dynamic exchange tells the host how many rows will come; or the launches are what
//   step i waits for): when step i ends, so that a token is seen a step late; what arrives during step i runs in step i + 1.
// Tokens of a step that no other follows are seen when it ends, and what arrives while the first step after a pause is
// launched finds the next batch put together.
//   Source : SGLang v0.4.8 and v0.4.10, managers/scheduler.py: event_loop_overlap; tp_worker_overlap_thread.py:
//            resolve_last_batch_result waits for launch_done of the current batch, then for copy_done of the last (its
//            pull request 5788); scheduler_output_processor_mixin.py: "free the one extra delayed token". SGLang's
//            issue 10514 measures it: the mean TTFT falls from 2464 to 1676 ms with --disable-overlap-schedule.
//   Differs: launches of a held step end with the step, not with its last exchange.
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
  struct Eager {
    EagerWork batch;         // of the model: as often as the step runs in batches
    EagerWork drafter = {};  // once
  };
  std::array<Eager, 2> eager = {};  // the host's in a step without prompts, and with
  // Of prefill and decode instances. A rank uses lane (rank / ranks_per_lane).
  const KvPath* path = nullptr;
  int ranks_per_lane = 1;
  std::vector<HardwareChange> changes = {};  // by time
  int gpus = 0;
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
  struct Started {
    Ticks duration{};
    std::int64_t finished = 0;  // requests whose last token, of the step before, the host sees now
  };
  Started start_step(Ticks now, const RunControl& control, RunCounters& counters, Fingerprint& fingerprint);
  // Ends the step under way; returns how many requests got their last token meanwhile.
  std::int64_t end_step(Ticks now, RunCounters& counters);
  // The host's loop stops, since there is no batch to launch or hardware has changed: it sees the tokens that are made.
  // Returns how many requests got their last one.
  std::int64_t stop_loop(Ticks now, RunCounters& counters);
  bool has_unseen_tokens() const { return unseen_tokens_; }

  bool any_work() const;
  bool holds_prompts() const { return holds_prompts_; }  // in the latest pass
  void on_idle();
  RankLoad load() const;
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
    std::int64_t tokens = 0;
    bool blocked = false;
  };
  std::int64_t hand_out(Ticks now, RunCounters& counters);
  std::int64_t after_launch(Ticks now, RunCounters& counters);
  std::int64_t take_in(Ticks now);  // as the ranks' one, summed
  bool align_prompts();
  Formed form_batches(Ticks now, RunCounters& counters, Fingerprint& fingerprint);
  // `waited`: from `since` on, before the step.
  StepCost price(Ticks now, const StepCost& waited, Ticks since, const RunControl& control);

  const InstanceSpec& spec_;
  std::int32_t number_;
  std::span<const std::unique_ptr<Scheduler>> ranks_;
  RequestRouter router_;
  PrefillGate gate_;
  bool holds_prompts_ = false;
  std::vector<RankBatch> batches_;
  InstanceTotals totals_;
  std::optional<Ticks> held_since_;
  bool unseen_tokens_ = false;  // a step has ended, and its tokens are not handed out
  int passes_ = 0;              // since new requests were looked for: steps, those with prompts as many as it takes
  bool looping_ = false;        // a step was launched before the next one
  bool held_launch_ = false;    // of the latest step: the host comes to the tokens of the one before when it ends
};

}  // namespace epsim
