// Plays steps as task graphs on the event queue (sim/engine/task_graph.h): the one executor, whoever prices the tasks.
//
//   Time by part : of the tasks on the critical path, each of which starts when the one before it ends, so that the
//                  parts sum to the step. What is hidden beside other work is in no part.
//   Straggler    : what the mean GPU waits: the step less its own kernels and less the exchanges on the critical path,
//                  plus what those exchanges wait for their busiest link.
#pragma once

#include <span>
#include <vector>

#include "models/step/step_model.h"
#include "models/step/step_stats.h"
#include "sim/domain/step_recorder.h"
#include "sim/engine/task_graph.h"
#include "sim/step/pairwise_exchange.h"
#include "sim/step/step_graph.h"

namespace epsim {

// What the tasks of one MoE layer take that are not of a rank.
struct StageTimes {
  const MoeLayerCost& layer;
  const PriceRow& experts;                  // [GPU]
  std::span<const TickCost> shared;         // [DP rank]
  const PairwiseExchange* ports = nullptr;  // of a pairwise exchange
  // Under a policy that acts in every layer:
  const PriceRow* first_experts = nullptr;  // [GPU]; `experts` are those that wait for more
  const PriceRow* copies = nullptr;         // [GPU]
  TickCost ids{}, plan{};
};

class StepPlayer {
 public:
  StepPlayer(const StepModel& model, const StepOrder& order, std::vector<LaneSlowdown> slowdowns,
             StepSync sync = StepSync::kBarrier);
  StepPlayer(const StepPlayer&) = delete;
  StepPlayer& operator=(const StepPlayer&) = delete;

  int batches() const { return step_.batches; }
  // What the tasks of ranks take in `batch`; the head takes that of the undivided batch.
  void set_ranks(int batch, std::span<const RankCost> ranks, std::span<const RankCost> heads);
  void set_layer(int batch, int l, const StageTimes& times);
  // The step, once all of its tasks are set. Ends the step in `stats`; a recorder may be null.
  StepCost play(StepStats& stats, StepRecorder* recorder);

 private:
  struct OnPath {
    TaskId task;
    Ticks time;  // of the step's length
  };
  const StepTask& task(TaskId t) const { return step_.tasks[static_cast<std::size_t>(t)]; }
  StepLane lane(TaskId t) const { return row_of(task(t).stage).lane; }
  void set(TaskId t, const TickCost& cost, Seconds waiting = {});
  TaskId kernel_beside(TaskId t, TaskId held_by) const;
  void walk();
  void record_spans(StepRecorder& recorder) const;

  int layers_, gpus_;
  StepGraph step_;
  TaskRun run_;
  // [task]
  std::vector<Ticks> duration_;
  std::vector<Origin> origin_;
  std::vector<Seconds> straggler_;   // what the mean GPU waits for the busiest link of an exchange
  std::vector<double> waiting_;      // [MoE layer, and one for the rest] seconds
  std::vector<double> own_waiting_;  // of that, in the layer itself: the rest is in the dense layers before it
  std::vector<OnPath> path_;         // last first; the times add up to the step
};

// What an exchange or a copy takes from the kernels beside it.
std::vector<LaneSlowdown> slowdowns_of_kernels(const ExecutionOptions& options);

// Rows of MoE layer `l`, dispatch and combine.
void record_exchanges(StepRecorder& recorder, const StepModel& model, int l, int batch, const TrafficMatrix& traffic,
                      const MoeLayerCost& cost);

}  // namespace epsim
