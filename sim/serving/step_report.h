// What a played step comes to: its time by part and origin along the critical path, and what its GPUs waited.
#pragma once

#include <span>
#include <vector>

#include "models/step_model.h"
#include "models/step_sum.h"
#include "models/step_tally.h"
#include "sim/domain/step_recorder.h"
#include "sim/engine/task_graph.h"
#include "sim/serving/step_graph.h"

namespace epsim {

class StepReport {
 public:
  explicit StepReport(int layers, int gpus) : gpus_(gpus), waiting_(static_cast<std::size_t>(layers) + 1) {}

  // `straggler` [task]: what the mean GPU waits for the busiest link of an exchange.
  StepCost cost(const StepGraph& graph, const TaskRun& run, std::span<const Origin> origins,
                std::span<const Seconds> straggler, StepTally& tally);

 private:
  struct OnPath {
    TaskId task;
    Ticks time;  // of the step's length
  };
  static TaskId kernel_beside(const StepGraph& graph, const TaskRun& run, TaskId t, TaskId held_by);
  void walk(const StepGraph& graph, const TaskRun& run);
  std::size_t stretch_of(const StepTask& task) const;

  int gpus_;
  std::vector<double> waiting_;  // [MoE layer, and one for the rest] seconds
  std::vector<OnPath> path_;     // last first; the times add up to the step
};

// Rows of MoE layer `l`, forth and back.
void tell_exchanges(StepRecorder& recorder, const StepModel& model, int l, int batch, const LayerTraffic& traffic);

void record_spans(const StepGraph& graph, const TaskRun& run, StepRecorder& recorder);

}  // namespace epsim
