#include "sim/step/step_report.h"

#include <algorithm>

namespace epsim {
namespace {

TickCost cost_of_rank_task(const RankCost& p, StepTask::Kind kind) {
  switch (kind) {
    case StepTask::Kind::kAttention:
      return p.attention;
    case StepTask::Kind::kPrepare:
      return p.prepare;
    case StepTask::Kind::kScores:
      return {p.attention.time - p.prepare.time, p.attention.origin};
    case StepTask::Kind::kGate:
    case StepTask::Kind::kPredict:  // the next layer's gate, on this layer's tokens
      return p.gate;
    case StepTask::Kind::kShared:
      return p.shared;
    case StepTask::Kind::kDense:
      return p.dense;
    default:
      return p.head;
  }
}

}  // namespace

void TaskTimes::set_ranks(const StepGraph& graph, int batch, std::span<const RankCost> ranks,
                          std::span<const RankCost> heads) {
  for (const TaskId t : graph.of_ranks) {
    const StepTask& task = graph.tasks[static_cast<std::size_t>(t)];
    if (task.batch == batch) {
      const std::span<const RankCost> costs = task.kind == StepTask::Kind::kHead ? heads : ranks;
      set(t, cost_of_rank_task(costs[static_cast<std::size_t>(task.index)], task.kind));
    }
  }
}

std::size_t StepReport::stretch_of(const StepTask& task) const {
  return static_cast<std::size_t>(task.stretch >= 0 ? task.stretch : task.layer);
}

// Kernels that `t` waited for besides `held_by`, and that were still running when that began: the last of them to end.
TaskId StepReport::kernel_beside(const StepGraph& graph, const TaskRun& run, TaskId t, TaskId held_by) {
  TaskId best = kNoTask;
  for (const TaskId before : run.waits_for(t)) {
    const bool kernel = graph.tasks[static_cast<std::size_t>(before)].lane == StepLane::kCompute;
    if (kernel && run.end(before) > run.start(held_by) && (best == kNoTask || run.end(before) > run.end(best))) {
      best = before;
    }
  }
  return best;
}

// Walks back from the task that ended last. Where a task was held up by an exchange, a copy or a plan while kernels
// that it also needed were running, only what went on after those kernels counts as waiting.
void StepReport::walk(const StepGraph& graph, const TaskRun& run) {
  path_.clear();
  const auto lane = [&](TaskId t) { return graph.tasks[static_cast<std::size_t>(t)].lane; };
  for (TaskId t = run.last(); t != kNoTask;) {
    path_.push_back({t, run.end(t) - run.start(t)});
    TaskId next = run.held_by(t);
    if (next != kNoTask && lane(next) != StepLane::kCompute) {
      const TaskId kernel = kernel_beside(graph, run, t, next);
      if (kernel != kNoTask) {
        path_.push_back({next, run.end(next) - run.end(kernel)});
        next = kernel;
      }
    }
    t = next;
  }
}

StepCost StepReport::cost(const StepGraph& graph, const TaskRun& run, const TaskTimes& times, StepStats& stats) {
  const std::size_t layers = waiting_.size() - 1;
  std::fill(waiting_.begin(), waiting_.end(), 0.0);
  StepSum sum;
  walk(graph, run);
  for (const auto& [t, time] : path_) {
    const StepTask& task = graph.tasks[static_cast<std::size_t>(t)];
    sum.add(task.part, {time, times.origin[static_cast<std::size_t>(t)]});
    if (static_cast<std::size_t>(task.layer) < layers) {
      stats.time(task.layer, task.part, time);
    }
    waiting_[stretch_of(task)] +=
        (task.lane == StepLane::kCompute ? to_seconds(time) : times.straggler[static_cast<std::size_t>(t)]).count();
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
      stats.straggler(static_cast<int>(l), waiting);
    }
  }
  return sum.cost();
}

void record_exchanges(StepRecorder& recorder, const StepModel& model, int l, int batch, const TrafficMatrix& traffic,
                      const MoeLayerCost& cost) {
  for (const LayerPart part : {LayerPart::kDispatch, LayerPart::kCombine}) {
    recorder.exchange(model.exchange_of(l, part, batch, traffic, cost));
  }
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
