// Prices steps by playing their task graph on the event queue (sim/engine/task_graph.h, step_graph.h).
//
//   Time by part : of the tasks on the critical path, each of which starts when the one before it ends, so that the
//   parts
//                  sum to the step. What is hidden beside other work is in no part.
//   Straggler    : what the mean GPU waits: the step less its own kernels and less the exchanges on the critical path,
//                  plus what those exchanges wait for their busiest link.
//   Without overlap and with barriers it agrees with StepModel::price to the picosecond.
#pragma once

#include <memory>
#include <vector>

#include "models/step/step_model.h"
#include "sim/engine/task_graph.h"
#include "sim/scenario/execution_options.h"
#include "sim/step/pairwise_exchange.h"
#include "sim/step/step_graph.h"
#include "sim/step/step_report.h"

namespace epsim {

class EventPricer final : public StepPricer {
 public:
  // Keeps a reference to `model`, whose stats it fills.
  EventPricer(StepModel& model, const ExecutionOptions& options);

  StepCost price(const StepAt& at, std::span<const RankBatch> ranks) override;
  void set_conditions(const StepConditions& conditions) override { model_.set_conditions(conditions); }
  void record_to(StepRecorder* recorder) { recorder_ = recorder; }

 private:
  // A graph and the run that plays it.
  struct Played {
    StepGraph step;
    TaskRun run;
    TaskTimes times;
    Played(StepGraph graph, std::vector<LaneSlowdown> slowdowns)
        : step(std::move(graph)), run(step.graph, std::move(slowdowns)), times(step.tasks.size()) {}
    Played(const Played&) = delete;
    Played& operator=(const Played&) = delete;
  };
  Played& graph_for(std::span<const RankBatch> ranks);
  void fill(Played& played, int batch, const StepAt& at, std::span<const RankBatch> ranks);
  void fill_layer(const StepGraph& graph, int batch, int l, TaskTimes& times);

  StepModel& model_;
  ExecutionOptions options_;
  std::unique_ptr<Played> whole_, halves_;
  std::unique_ptr<Played> decode_halves_;  // of steps without prompts
  StepRecorder* recorder_ = nullptr;
  // Scratch of one step.
  std::vector<RankBatch> half_;
  std::vector<RankCost> full_;  // of the undivided batch: the head
  PairwiseExchange ports_;
  StepReport report_;
};

// The two halves of a batch, as if it were divided between sequences: equal tokens but for one, and each half of the
// attention.
RankBatch half_of(const RankBatch& batch, int half);

}  // namespace epsim
