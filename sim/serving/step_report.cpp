#include "sim/serving/step_report.h"

#include <algorithm>

namespace epsim {

std::size_t StepReport::stretch_of(const StepTask& task) const {
  return static_cast<std::size_t>(task.stretch >= 0 ? task.stretch : task.layer);
}

StepCost StepReport::cost(const StepGraph& graph, const TaskRun& run, std::span<const Origin> origins,
                          std::span<const Seconds> straggler, StepTally& tally) {
  const std::size_t layers = waiting_.size() - 1;
  std::fill(waiting_.begin(), waiting_.end(), 0.0);
  StepSum sum;
  run.critical_path(path_);
  for (const TaskId t : path_) {
    const StepTask& task = graph.tasks[static_cast<std::size_t>(t)];
    const Ticks time = run.end(t) - run.start(t);
    sum.add(task.part, {time, origins[static_cast<std::size_t>(t)]});
    if (static_cast<std::size_t>(task.layer) < layers) {
      tally.time(task.layer, task.part, time);
    }
    waiting_[stretch_of(task)] +=
        (task.lane == StepLane::kCompute ? to_seconds(time) : straggler[static_cast<std::size_t>(t)]).count();
  }
  for (TaskId t = 0; t < graph.graph.size(); ++t) {
    const StepTask& task = graph.tasks[static_cast<std::size_t>(t)];
    if (task.lane == StepLane::kCompute) {
      waiting_[stretch_of(task)] -= to_seconds(run.end(t) - run.start(t)).count() * graph.graph.task(t).units / gpus_;
    }
  }
  for (std::size_t l = 0; l <= layers; ++l) {
    const Seconds waiting(std::max(0.0, waiting_[l]));
    sum.wait(waiting);
    if (l < layers) {
      tally.straggler(static_cast<int>(l), waiting);
    }
  }
  return sum.cost();
}

void record_spans(const StepGraph& graph, const TaskRun& run, StepRecorder& recorder) {
  for (TaskId t = 0; t < graph.graph.size(); ++t) {
    const StepTask& task = graph.tasks[static_cast<std::size_t>(t)];
    const Task& at = graph.graph.task(t);
    if (run.end(t) > run.start(t)) {
      recorder.span({task.model_layer, task.part, task.lane, task.batch, at.first_unit, at.units, run.start(t),
                     run.end(t) - run.start(t)});
    }
  }
}

}  // namespace epsim
