// What a played step comes to: its time by part and origin along the critical path, and what its GPUs waited.
#pragma once

#include <span>
#include <vector>

#include "models/step/step_model.h"
#include "models/step/step_stats.h"
#include "models/step/step_sum.h"
#include "sim/domain/step_recorder.h"
#include "sim/engine/task_graph.h"
#include "sim/step/step_graph.h"

namespace epsim {

// What every task of a graph takes, and where that comes from.
struct TaskTimes {
  std::vector<Ticks> duration;
  std::vector<Origin> origin;
  std::vector<Seconds> straggler;  // what the mean GPU waits for the busiest link of an exchange

  explicit TaskTimes(std::size_t tasks) : duration(tasks), origin(tasks), straggler(tasks) {}
  void set(TaskId t, const TickCost& piece, Seconds waiting = {}) {
    const auto i = static_cast<std::size_t>(t);
    duration[i] = piece.time;
    origin[i] = piece.origin;
    straggler[i] = waiting;
  }
  // The tasks of `batch` whose time RankCost has; heads are those of the undivided batch.
  void set_ranks(const StepGraph& graph, int batch, std::span<const RankCost> ranks, std::span<const RankCost> heads);
};

class StepReport {
 public:
  explicit StepReport(int layers, int gpus) : gpus_(gpus), waiting_(static_cast<std::size_t>(layers) + 1) {}

  StepCost cost(const StepGraph& graph, const TaskRun& run, const TaskTimes& times, StepStats& stats);

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
void record_exchanges(StepRecorder& recorder, const StepModel& model, int l, int batch, const TrafficMatrix& traffic,
                      const MoeLayerCost& cost);

void record_spans(const StepGraph& graph, const TaskRun& run, StepRecorder& recorder);

}  // namespace epsim
