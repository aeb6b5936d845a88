#include "sim/engine/task_graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "sim/core/check.h"
#include "sim/core/rng.h"

using namespace epsim;

namespace {

std::vector<Ticks> ticks(std::initializer_list<std::int64_t> values) {
  std::vector<Ticks> out;
  for (const std::int64_t v : values) {
    out.emplace_back(v);
  }
  return out;
}

struct RandomGraph {
  TaskGraph graph;
  std::vector<Ticks> durations;
  std::vector<std::vector<TaskId>> after;

  explicit RandomGraph(RandomStream& random) {
    const auto tasks = static_cast<TaskId>(1 + random.below(60));
    for (TaskId t = 0; t < tasks; ++t) {
      std::vector<TaskId> waits;
      for (TaskId before = 0; before < t; ++before) {
        if (random.below(8) == 0) {
          waits.push_back(before);
        }
      }
      graph.add({}, waits);
      after.push_back(waits);
      durations.emplace_back(static_cast<std::int64_t>(random.below(1000)));
    }
  }
};

}  // namespace

TEST_CASE("a task starts when the last task that it waits for has ended") {
  TaskGraph graph;
  const TaskId a = graph.add({}, {}), b = graph.add({}, {}), c = graph.add({}, {a, b}), d = graph.add({}, {a});
  TaskRun run(graph);
  CHECK(run.run(ticks({10, 25, 5, 7})) == Ticks(30));
  CHECK(run.start(c) == Ticks(25));
  CHECK(run.end(d) == Ticks(17));
  CHECK(run.held_by(c) == b);
  CHECK(run.held_by(a) == kNoTask);
  CHECK(run.run(ticks({40, 25, 5, 7})) == Ticks(47));  // again, with other durations: a and d now last longest
  CHECK(run.held_by(c) == a);
}

TEST_CASE("random graphs end when their longest path does, and the critical path adds up to it") {
  for (std::uint64_t i = 0; i < 200; ++i) {
    RandomStream random(Seed{5}, "task-graph", i);
    const RandomGraph g(random);
    std::vector<std::int64_t> end;
    for (std::size_t t = 0; t < g.durations.size(); ++t) {  // tasks wait for earlier ones only
      std::int64_t start = 0;
      for (const TaskId before : g.after[t]) {
        start = std::max(start, end[static_cast<std::size_t>(before)]);
      }
      end.push_back(start + g.durations[t].count());
    }
    TaskRun run(g.graph);
    const Ticks length = run.run(g.durations);
    CHECK(length.count() == *std::max_element(end.begin(), end.end()));
    for (std::size_t t = 0; t < end.size(); ++t) {
      CHECK(run.end(static_cast<TaskId>(t)).count() == end[t]);
    }
    Ticks sum{};  // each task started when the one that held it ended
    for (TaskId t = run.last(); t != kNoTask; t = run.held_by(t)) {
      sum += g.durations[static_cast<std::size_t>(t)];
    }
    CHECK(sum == length);
  }
}

TEST_CASE("a serial resource takes tasks as they become ready, one at a time") {
  TaskGraph graph;
  const TaskId early = graph.add({}, {}), late = graph.add({}, {});
  const TaskId second = graph.add({.server = 0}, {late}), first = graph.add({.server = 0}, {early});
  const TaskId third = graph.add({.server = 0}, {late});
  TaskRun run(graph);
  // Ready at 5 and, twice, at 6; 10 long each: 5..15, 15..25, 25..35.
  CHECK(run.run(ticks({5, 6, 10, 10, 10})) == Ticks(35));
  CHECK(run.start(first) == Ticks(5));
  CHECK(run.start(second) == Ticks(15));
  CHECK(run.start(third) == Ticks(25));
  CHECK(run.held_by(third) == second);
}

TEST_CASE("a kernel beside a copy goes on at its share of speed, and at full speed afterwards") {
  constexpr std::int16_t kernel = 0, copy = 1;
  TaskGraph graph;
  const TaskId k = graph.add({.lane = kernel}, {});
  const TaskId wait = graph.add({.first_unit = 1}, {});
  const TaskId c = graph.add({.lane = copy}, {wait});
  const TaskId elsewhere = graph.add({.first_unit = 1, .lane = kernel}, {wait});
  TaskRun run(graph, {{kernel, copy, 0.5}});
  // Undisturbed to 20, half speed while the copy runs from 20 to 50 (15 of work), then the remaining 65: ends at 115.
  run.run(ticks({100, 20, 30, 40}));
  CHECK(run.end(k) == Ticks(115));
  CHECK(run.end(c) == Ticks(50));
  CHECK(run.end(elsewhere) == Ticks(60));  // another GPU
  // A kernel that starts beside a copy is slow from the start: 30 at half speed is 60, while the copy still runs.
  run.run(ticks({30, 0, 100, 0}));
  CHECK(run.end(k) == Ticks(60));
}

TEST_CASE("slow-down never shortens a run, and none leaves it as it is") {
  for (std::uint64_t i = 0; i < 50; ++i) {
    RandomStream random(Seed{6}, "task-graph", i);
    TaskGraph graph;
    std::vector<Ticks> durations;
    for (TaskId t = 0; t < 40; ++t) {
      std::vector<TaskId> waits;
      if (t > 0 && random.below(3) > 0) {
        waits.push_back(static_cast<TaskId>(random.below(static_cast<std::uint64_t>(t))));
      }
      graph.add({.first_unit = static_cast<std::int32_t>(random.below(3)),
                 .lane = static_cast<std::int16_t>(random.below(2))},
                waits);
      durations.emplace_back(static_cast<std::int64_t>(1000 + random.below(1000)));
    }
    TaskRun plain(graph), same(graph, {{0, 1, 1.0}}), slow(graph, {{0, 1, 0.7}});
    const Ticks length = plain.run(durations);
    CHECK(same.run(durations) == length);
    const Ticks slowed = slow.run(durations);
    CHECK(slowed >= length);
    CHECK(slowed.count() <= std::int64_t(static_cast<double>(length.count()) / 0.7) + 40);
    CHECK(slow.run(durations) == slowed);
  }
}

TEST_CASE("a graph refuses what is not one") {
  TaskGraph graph;
  const TaskId a = graph.add({}, {});
  CHECK_THROWS_AS(graph.add({}, {a + 1}), InvariantBroken);
  CHECK_THROWS_AS(graph.add({.units = 0}, {}), InvariantBroken);
  TaskRun run(graph);
  CHECK_THROWS_AS(run.run(ticks({1, 2, 3})), InvariantBroken);
}
