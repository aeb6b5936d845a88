#include "sim/step/step_player.h"

#include <algorithm>
#include <utility>

#include "models/step/step_sum.h"
#include "sim/core/check.h"

namespace epsim {
namespace {

TickCost cost_of(Stage stage, const RankCost& p) {
  switch (stage) {
    case Stage::kAttention:
      return p.attention;
    case Stage::kPrepare:
      return p.prepare;
    case Stage::kScores:
      return {p.attention.time - p.prepare.time, p.attention.origin};
    case Stage::kGate:
    case Stage::kPredict:  // the next layer's gate, on this layer's tokens
      return p.gate;
    case Stage::kDense:
      return p.dense;
    default:
      return p.head;
  }
}

TickCost cost_of(const StepTask& task, const StageTimes& times) {
  const auto index = static_cast<std::size_t>(task.index);
  switch (task.stage) {
    case Stage::kCounts:
      return times.layer.counts;
    case Stage::kDispatch:
      return times.layer.dispatch;
    case Stage::kCombine:
      return times.layer.combine;
    case Stage::kExperts:
      return tick_cost(times.experts[index]);
    case Stage::kShared:
      return times.shared[index];
    case Stage::kFirstExperts:
      return tick_cost((*times.first_experts)[index]);
    case Stage::kCopies:
      return tick_cost((*times.copies)[index]);
    case Stage::kCopied:  // takes no time: the moment when all copies of a layer have arrived
      return {};
    case Stage::kIds:
      return times.ids;
    case Stage::kPlan:
      return times.plan;
    default:
      EPSIM_CHECK(times.ports != nullptr, "a port's task is part of a pairwise exchange");
      return times.ports->cost(task);
  }
}

// The MoE layer whose exchange a task may make late.
std::size_t stretch_of(const StepTask& task) {
  return static_cast<std::size_t>(task.stretch >= 0 ? task.stretch : task.layer);
}

}  // namespace

StepPlayer::StepPlayer(const StepModel& model, const StepOrder& order, std::vector<LaneSlowdown> slowdowns,
                       StepSync sync)
    : layers_(model.costs().model().moe_layers()),
      gpus_(model.costs().parallelism().gpus),
      step_(build_step_graph(model, order, sync)),
      run_(step_.graph, std::move(slowdowns)),
      duration_(step_.tasks.size()),
      origin_(step_.tasks.size()),
      straggler_(step_.tasks.size()),
      waiting_(static_cast<std::size_t>(layers_) + 1),
      own_waiting_(waiting_.size()) {}

void StepPlayer::set(TaskId t, const TickCost& cost, Seconds waiting) {
  const auto i = static_cast<std::size_t>(t);
  duration_[i] = cost.time;
  origin_[i] = cost.origin;
  straggler_[i] = waiting;
}

void StepPlayer::set_ranks(int batch, std::span<const RankCost> ranks, std::span<const RankCost> heads) {
  for (const TaskId t : step_.of_ranks) {
    if (task(t).batch == batch) {
      const std::span<const RankCost> costs = task(t).stage == Stage::kHead ? heads : ranks;
      set(t, cost_of(task(t).stage, costs[static_cast<std::size_t>(task(t).index)]));
    }
  }
}

void StepPlayer::set_layer(int batch, int l, const StageTimes& times) {
  const std::int64_t row = std::int64_t{batch} * layers_ + l;
  for (const TaskId t : step_.of_layer[static_cast<std::size_t>(row)]) {
    const Seconds waiting = task(t).stage == Stage::kDispatch  ? times.layer.dispatch_straggler
                            : task(t).stage == Stage::kCombine ? times.layer.combine_straggler
                                                               : Seconds{};
    set(t, cost_of(task(t), times), waiting);
  }
}

// Kernels that `t` waited for besides `held_by`, and that were still running when that began: the last of them to end.
TaskId StepPlayer::kernel_beside(TaskId t, TaskId held_by) const {
  TaskId best = kNoTask;
  for (const TaskId before : run_.waits_for(t)) {
    if (lane(before) == StepLane::kCompute && run_.end(before) > run_.start(held_by) &&
        (best == kNoTask || run_.end(before) > run_.end(best))) {
      best = before;
    }
  }
  return best;
}

// Walks back from the task that ended last. Where a task was held up by an exchange, a copy or a plan while kernels
// that it also needed were running, only what went on after those kernels counts as waiting.
void StepPlayer::walk() {
  path_.clear();
  for (TaskId t = run_.last(); t != kNoTask;) {
    path_.push_back({t, run_.end(t) - run_.start(t)});
    TaskId next = run_.held_by(t);
    if (next != kNoTask && lane(next) != StepLane::kCompute) {
      const TaskId kernel = kernel_beside(t, next);
      if (kernel != kNoTask) {
        path_.push_back({next, run_.end(next) - run_.end(kernel)});
        next = kernel;
      }
    }
    t = next;
  }
}

StepCost StepPlayer::play(StepStats& stats, StepRecorder* recorder) {
  run_.run(duration_);
  if (recorder != nullptr) {
    record_spans(*recorder);
  }
  stats.end_step();
  std::fill(waiting_.begin(), waiting_.end(), 0.0);
  std::fill(own_waiting_.begin(), own_waiting_.end(), 0.0);
  const auto wait = [this](const StepTask& what, double seconds) {
    waiting_[stretch_of(what)] += seconds;
    own_waiting_[static_cast<std::size_t>(what.layer)] += seconds;
  };
  StepSum sum;
  walk();
  for (const auto& [t, time] : path_) {
    const StepTask& what = task(t);
    const StageRow& row = row_of(what.stage);
    sum.add(row.part, {time, origin_[static_cast<std::size_t>(t)]});
    if (what.layer < layers_) {
      stats.time(what.layer, row.part, time);
    }
    wait(what, (row.lane == StepLane::kCompute ? to_seconds(time) : straggler_[static_cast<std::size_t>(t)]).count());
  }
  for (TaskId t = 0; t < step_.graph.size(); ++t) {
    if (lane(t) == StepLane::kCompute) {
      wait(task(t), -to_seconds(run_.end(t) - run_.start(t)).count() * step_.graph.task(t).units / gpus_);
    }
  }
  for (int l = 0; l <= layers_; ++l) {
    const double waiting = std::max(0.0, waiting_[static_cast<std::size_t>(l)]);
    sum.wait(Seconds(waiting));
    if (l < layers_) {
      stats.straggler(l, Seconds(std::clamp(own_waiting_[static_cast<std::size_t>(l)], 0.0, waiting)));
    }
  }
  return sum.cost();
}

void StepPlayer::record_spans(StepRecorder& recorder) const {
  for (TaskId t = 0; t < step_.graph.size(); ++t) {
    const Task& at = step_.graph.task(t);
    const StageRow& row = row_of(task(t).stage);
    if (run_.end(t) > run_.start(t)) {
      recorder.span({task(t).model_layer, row.part, row.lane, task(t).batch, at.first_unit, at.units, run_.start(t),
                     run_.end(t) - run_.start(t)});
    }
  }
}

std::vector<LaneSlowdown> slowdowns_of_kernels(const ExecutionOptions& options) {
  const auto compute = static_cast<std::int16_t>(StepLane::kCompute);
  return {{compute, static_cast<std::int16_t>(StepLane::kNetwork), 1.0 - options.exchange_sm_share},
          {compute, static_cast<std::int16_t>(StepLane::kCopy), options.speed_beside_copies}};
}

void record_exchanges(StepRecorder& recorder, const StepModel& model, int l, int batch, const TrafficMatrix& traffic,
                      const MoeLayerCost& cost) {
  for (const LayerPart part : {LayerPart::kDispatch, LayerPart::kCombine}) {
    recorder.exchange(model.exchange_of(l, part, batch, traffic, cost));
  }
}

}  // namespace epsim
