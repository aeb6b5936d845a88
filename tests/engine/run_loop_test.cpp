#include "sim/engine/run_loop.h"

#include <doctest/doctest.h>

#include <vector>

namespace epsim {

// Each event names itself and how many more it brings, each 10 ps later.
struct CountDown {
  int name = 0, left = 0;
};
inline void add_to(Fingerprint& fingerprint, const CountDown& event) {
  fingerprint.add(static_cast<std::int64_t>(event.name));
  fingerprint.add(static_cast<std::int64_t>(event.left));
}

namespace {

struct Run {
  EventQueue<CountDown> queue;
  Fingerprint fingerprint;
  std::vector<int> names;

  template <class Stop>
  LoopEnd go(Stop stop) {
    return run_events(
        queue,
        [&](const EventKey& key, const CountDown& event) {
          names.push_back(event.name);
          if (event.left > 0) {
            queue.push(key.at + Ticks{10}, key.phase, {event.name, event.left - 1});
          }
        },
        fingerprint, stop);
  }
};
constexpr auto kNever = [] { return false; };

TEST_CASE("the loop handles all events in order, those pushed on the way too") {
  Run run;
  run.queue.push(Ticks{5}, Phase::Arrive, {2, 1});
  run.queue.push(Ticks{0}, Phase::Arrive, {1, 2});
  const LoopEnd end = run.go(kNever);
  // name 1 at 0, 10, 20; name 2 at 5, 15
  CHECK(run.names == std::vector<int>{1, 2, 1, 2, 1});
  CHECK(end.events == 5);
  CHECK(!end.stopped);
  CHECK(run.queue.now() == Ticks{20});
}

TEST_CASE("the predicate stops the loop before the next event, and the loop can go on") {
  Run run, whole;
  for (Run* each : {&run, &whole}) {
    each->queue.push(Ticks{0}, Phase::Arrive, {1, 9});
  }
  const LoopEnd end = run.go([&] { return run.names.size() == 4; });
  CHECK(end.stopped);
  CHECK(end.events == 4);
  CHECK(run.queue.size() == 1);
  CHECK(run.go(kNever).events == 6);
  whole.go(kNever);
  CHECK(run.fingerprint.value() == whole.fingerprint.value());
}

TEST_CASE("an empty queue ends at once, without asking") {
  Run run;
  const LoopEnd end = run.go([]() -> bool { throw std::logic_error("asked"); });
  CHECK(end.events == 0);
  CHECK(!end.stopped);
  CHECK(run.fingerprint.value() == Fingerprint().value());
}

std::uint64_t fingerprint_of(Ticks at, Phase phase, CountDown event) {
  Run run;
  run.queue.push(at, phase, event);
  run.go(kNever);
  return run.fingerprint.value();
}

TEST_CASE("the fingerprint tells time, phase and event apart") {
  const std::uint64_t base = fingerprint_of(Ticks{7}, Phase::Arrive, {1, 0});
  CHECK(base == fingerprint_of(Ticks{7}, Phase::Arrive, {1, 0}));
  CHECK(base != fingerprint_of(Ticks{8}, Phase::Arrive, {1, 0}));
  CHECK(base != fingerprint_of(Ticks{7}, Phase::Schedule, {1, 0}));
  CHECK(base != fingerprint_of(Ticks{7}, Phase::Arrive, {2, 0}));
  Fingerprint by_hand;  // time, phase, then the event's own words
  for (const std::int64_t word : {7, 1, 1, 0}) {
    by_hand.add(word);
  }
  CHECK(base == by_hand.value());
}

}  // namespace
}  // namespace epsim
