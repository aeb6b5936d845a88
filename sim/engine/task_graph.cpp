#include "sim/engine/task_graph.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/core/check.h"

namespace epsim {

TaskId TaskGraph::add(const Task& task, std::span<const TaskId> after) {
  EPSIM_CHECK(task.units > 0 && task.first_unit >= 0 && task.lane >= 0, "a task occupies a lane of at least one unit");
  const TaskId id = size();
  tasks_.push_back(task);
  for (const TaskId before : after) {
    order(before, id);
  }
  return id;
}

void TaskGraph::order(TaskId before, TaskId task) {
  EPSIM_CHECK(before >= 0 && before < task && task < size(), "a task waits for tasks that were added before it");
  edges_.push_back({before, task});
}

TaskRun::TaskRun(const TaskGraph& graph, std::vector<LaneSlowdown> slowdowns)
    : graph_(graph), slowdowns_(std::move(slowdowns)) {
  const auto tasks = static_cast<std::size_t>(graph.size());
  first_after_.assign(tasks + 1, 0);
  first_before_.assign(tasks + 1, 0);
  waits_.assign(tasks, 0);
  for (const TaskGraph::Edge& e : graph.edges_) {
    ++first_after_[static_cast<std::size_t>(e.before) + 1];
    ++first_before_[static_cast<std::size_t>(e.after) + 1];
    ++waits_[static_cast<std::size_t>(e.after)];
  }
  for (std::size_t t = 0; t < tasks; ++t) {
    first_after_[t + 1] += first_after_[t];
    first_before_[t + 1] += first_before_[t];
  }
  after_.resize(graph.edges_.size());
  before_.resize(graph.edges_.size());
  std::vector<std::int32_t> next_after = first_after_, next_before = first_before_;
  for (const TaskGraph::Edge& e : graph.edges_) {
    after_[static_cast<std::size_t>(next_after[static_cast<std::size_t>(e.before)]++)] = e.after;
    before_[static_cast<std::size_t>(next_before[static_cast<std::size_t>(e.after)]++)] = e.before;
  }
  for (const Task& task : graph.tasks_) {
    servers_ = std::max(servers_, task.server + 1);
    units_ = std::max(units_, task.first_unit + task.units);
    lanes_ = std::max(lanes_, std::int32_t{task.lane} + 1);
  }
  start_.resize(tasks);
  end_.resize(tasks);
  held_by_.resize(tasks);
  server_.resize(static_cast<std::size_t>(servers_));
  std::erase_if(slowdowns_, [](const LaneSlowdown& s) { return s.speed == 1.0; });
  for (const LaneSlowdown& s : slowdowns_) {
    EPSIM_CHECK(s.speed > 0 && s.speed < 1, "a slowed task runs at a share of its speed");
    lanes_ = std::max({lanes_, s.of + 1, s.beside + 1});
  }
  if (!slowdowns_.empty()) {
    occupied_.assign(static_cast<std::size_t>(units_) * static_cast<std::size_t>(lanes_), 0);
    version_.assign(tasks, 0);
  }
}

std::span<const TaskId> TaskRun::waits_for(TaskId t) const {
  const auto first = static_cast<std::size_t>(first_before_[static_cast<std::size_t>(t)]);
  const auto last = static_cast<std::size_t>(first_before_[static_cast<std::size_t>(t) + 1]);
  return {before_.data() + first, last - first};
}

Ticks TaskRun::run(std::span<const Ticks> durations) {
  EPSIM_CHECK(durations.size() == waits_.size(), "one duration per task");
  durations_ = durations;
  origin_ = queue_.now().count();
  now_ = 0;
  ended_ = 0;
  last_ = kNoTask;
  pending_ = waits_;
  for (TaskId t = 0; t < graph_.size(); ++t) {
    if (waits_[static_cast<std::size_t>(t)] == 0) {
      ready(t, kNoTask);
    }
  }
  while (!queue_.empty()) {
    const auto next = queue_.pop();
    now_ = next.key.at.count() - origin_;
    if (slowdowns_.empty() || version_[static_cast<std::size_t>(next.event.task)] == next.event.version) {
      finish(next.event.task);
    }
  }
  EPSIM_CHECK(ended_ == graph_.size(), "every task of a graph ends");
  for (Server& server : server_) {
    server.queue.clear();
    server.next = 0;
  }
  return last_ == kNoTask ? Ticks{} : end(last_);
}

void TaskRun::ready(TaskId t, TaskId by) {
  const std::int32_t server = graph_.task(t).server;
  if (server >= 0) {
    Server& at = server_[static_cast<std::size_t>(server)];
    if (at.busy) {
      at.queue.push_back(t);
      return;
    }
    at.busy = true;
  }
  begin(t, by);
}

void TaskRun::begin(TaskId t, TaskId by) {
  const auto i = static_cast<std::size_t>(t);
  start_[i] = now_;
  held_by_[i] = by;
  if (slowdowns_.empty()) {
    queue_.push(Ticks(origin_ + now_ + durations_[i].count()), Phase::Complete, {t, 0});
    return;
  }
  occupy(t, 1);
  active_.push_back({t, speed_of(t), durations_[i].count(), now_});
  schedule(t, std::llround(static_cast<double>(durations_[i].count()) / active_.back().speed));
  adjust(t);
}

void TaskRun::finish(TaskId t) {
  end_[static_cast<std::size_t>(t)] = now_;
  ++ended_;
  last_ = t;
  if (!slowdowns_.empty()) {
    std::erase_if(active_, [t](const Active& a) { return a.task == t; });
    occupy(t, -1);
    adjust(t);
  }
  const std::int32_t server = graph_.task(t).server;
  if (server >= 0) {
    release_server(server, t);
  }
  const auto i = static_cast<std::size_t>(t);
  for (std::int32_t a = first_after_[i]; a < first_after_[i + 1]; ++a) {
    const TaskId next = after_[static_cast<std::size_t>(a)];
    if (--pending_[static_cast<std::size_t>(next)] == 0) {
      ready(next, t);
    }
  }
}

void TaskRun::release_server(std::int32_t server, TaskId by) {
  Server& at = server_[static_cast<std::size_t>(server)];
  if (at.next == at.queue.size()) {
    at.busy = false;
    return;
  }
  begin(at.queue[at.next++], by);
}

void TaskRun::occupy(TaskId t, int change) {
  const Task& task = graph_.task(t);
  for (std::int32_t u = task.first_unit; u < task.first_unit + task.units; ++u) {
    occupied_[static_cast<std::size_t>(u) * static_cast<std::size_t>(lanes_) + static_cast<std::size_t>(task.lane)] +=
        change;
  }
}

double TaskRun::speed_of(TaskId t) const {
  const Task& task = graph_.task(t);
  double speed = 1.0;
  for (const LaneSlowdown& s : slowdowns_) {
    if (s.of != task.lane) {
      continue;
    }
    for (std::int32_t u = task.first_unit; u < task.first_unit + task.units; ++u) {
      if (occupied_[static_cast<std::size_t>(u) * static_cast<std::size_t>(lanes_) +
                    static_cast<std::size_t>(s.beside)] > 0) {
        speed *= s.speed;
        break;
      }
    }
  }
  return speed;
}

// `changed` has started or ended: tasks on its units go on at a new speed. What is left of a task is whole picoseconds.
void TaskRun::adjust(TaskId changed) {
  const Task& task = graph_.task(changed);
  if (std::none_of(slowdowns_.begin(), slowdowns_.end(),
                   [&](const LaneSlowdown& s) { return s.beside == task.lane; })) {
    return;  // it slows none
  }
  for (Active& a : active_) {
    const Task& other = graph_.task(a.task);
    const bool meets =
        other.first_unit < task.first_unit + task.units && task.first_unit < other.first_unit + other.units;
    if (!meets || a.task == changed) {
      continue;
    }
    const double speed = speed_of(a.task);
    if (speed == a.speed) {
      continue;
    }
    a.left -= std::min(a.left, std::int64_t{std::llround(static_cast<double>(now_ - a.since) * a.speed)});
    a.since = now_;
    a.speed = speed;
    schedule(a.task, std::llround(static_cast<double>(a.left) / speed));
  }
}

void TaskRun::schedule(TaskId t, std::int64_t delay) {
  queue_.push(Ticks(origin_ + now_ + delay), Phase::Complete, {t, ++version_[static_cast<std::size_t>(t)]});
}

}  // namespace epsim
