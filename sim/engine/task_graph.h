// Tasks with durations that wait for each other, on the event queue: the step of an instance, played through.
//
//   Models : precedence (a task starts when all tasks that it waits for have ended); serial resources that take tasks
//            in the order in which they become ready; slow-down of tasks beside tasks of another lane on the same
//            unit (a kernel beside a copy), piecewise: whenever a task starts or ends, those beside it go on at their
//            new speed.
//   Ignores: preemption. A stream that keeps its order is a chain of precedences (the builder's business).
//   Cost   : O(tasks + precedences), and where slow-down is declared O(tasks x tasks under way).
//   Order  : events of one time go in the order in which they were scheduled, so equal graphs run equally to the bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/units.h"
#include "sim/engine/event_queue.h"

namespace epsim {

using TaskId = std::int32_t;
inline constexpr TaskId kNoTask = -1;

struct Task {
  std::int32_t first_unit = 0, units = 1;  // consecutive units (GPUs) that it occupies; matters for slow-down only
  std::int16_t lane = 0;                   // which of a unit's engines: compute, network, copy, ...
  std::int32_t server = -1;                // serial resource that it needs; -1 = none
};

// The structure of a step. Built once, run many times with other durations.
class TaskGraph {
 public:
  TaskId add(const Task& task, std::span<const TaskId> after);
  TaskId add(const Task& task, std::initializer_list<TaskId> after) {
    return add(task, std::span<const TaskId>(after.begin(), after.size()));
  }
  // One more precedence; both exist, and `before` was added first, which keeps the graph free of cycles.
  void order(TaskId before, TaskId task);

  std::int32_t size() const { return static_cast<std::int32_t>(tasks_.size()); }
  const Task& task(TaskId t) const { return tasks_[static_cast<std::size_t>(t)]; }

 private:
  friend class TaskRun;
  struct Edge {
    TaskId before, after;
  };
  std::vector<Task> tasks_;
  std::vector<Edge> edges_;
};

// Speed of a task of lane `of` while a task of lane `beside` runs on one of its units; 1 = undisturbed.
struct LaneSlowdown {
  std::int16_t of = 0, beside = 0;
  double speed = 1.0;  // in (0, 1]
};

// Plays a graph. Keeps a reference to it; prepared once for its structure, scratch space is reused from run to run.
class TaskRun {
 public:
  TaskRun(const TaskGraph& graph, std::vector<LaneSlowdown> slowdowns = {});

  // Runs all tasks; returns when the last one ends. Times count from the start of this run.
  Ticks run(std::span<const Ticks> durations);

  // Of the last run.
  Ticks start(TaskId t) const { return Ticks(start_[static_cast<std::size_t>(t)]); }
  Ticks end(TaskId t) const { return Ticks(end_[static_cast<std::size_t>(t)]); }
  // The task whose end let `t` start: the last of those it waited for, or the one before it on its server. kNoTask at
  // the start of the run.
  TaskId held_by(TaskId t) const { return held_by_[static_cast<std::size_t>(t)]; }
  TaskId last() const { return last_; }  // the one that ended last; kNoTask for an empty graph
  std::span<const TaskId> waits_for(TaskId t) const;

 private:
  struct TaskEnd {
    TaskId task;
    std::int32_t version;  // an end that was put off since is void
  };
  struct Active {  // a task under way that may be slowed
    TaskId task;
    double speed;
    std::int64_t left, since;  // work at full speed, in picoseconds, as of `since`
  };

  void ready(TaskId t, TaskId by);
  void begin(TaskId t, TaskId by);
  void finish(TaskId t);
  void release_server(std::int32_t server, TaskId by);
  double speed_of(TaskId t) const;
  void occupy(TaskId t, int change);
  void adjust(TaskId changed);
  void schedule(TaskId t, std::int64_t delay);

  const TaskGraph& graph_;
  std::vector<LaneSlowdown> slowdowns_;
  std::vector<std::int32_t> first_after_, after_;    // successors, by task
  std::vector<std::int32_t> first_before_, before_;  // predecessors, by task
  std::vector<std::int32_t> waits_;                  // [task] number of predecessors
  std::int32_t servers_ = 0;
  std::int32_t units_ = 0, lanes_ = 0;

  EventQueue<TaskEnd> queue_;
  std::int64_t origin_ = 0, now_ = 0;  // start of this run on the queue's clock; current time in this run
  std::span<const Ticks> durations_;
  std::vector<std::int32_t> pending_;
  std::vector<std::int64_t> start_, end_;
  std::vector<TaskId> held_by_;
  std::int32_t ended_ = 0;
  TaskId last_ = kNoTask;
  struct Server {
    bool busy = false;
    std::size_t next = 0;
    std::vector<TaskId> queue;
  };
  std::vector<Server> server_;
  std::vector<std::int32_t> occupied_;  // [unit][lane] tasks under way
  std::vector<Active> active_;
  std::vector<std::int32_t> version_;
};

}  // namespace epsim
