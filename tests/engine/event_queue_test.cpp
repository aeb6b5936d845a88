#include "sim/engine/event_queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "sim/core/rng.h"

namespace epsim {
namespace {

constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max();

// The rule itself, slow and plain: every pop looks for the smallest key.
struct Reference {
  struct Later {
    bool operator()(const std::pair<EventKey, int>& a, const std::pair<EventKey, int>& b) const {
      return a.first > b.first;
    }
  };
  std::priority_queue<std::pair<EventKey, int>, std::vector<std::pair<EventKey, int>>, Later> queue;
  std::uint64_t pushed = 0;
  void push(Ticks at, Phase phase, int event) { queue.push({{at, phase, pushed++}, event}); }
};

// One event out of both queues; they must agree on all of it.
Ticks pop_both(EventQueue<int>& queue, Reference& reference) {
  const auto [key, event] = reference.queue.top();
  reference.queue.pop();
  const auto got = queue.pop();
  REQUIRE(got.key == key);
  REQUIRE(got.event == event);
  REQUIRE(queue.now() == key.at);
  REQUIRE(queue.size() == reference.queue.size());
  return key.at;
}

// Delays that meet every case: equal times, next picosecond, one bucket, many levels, the end of time.
std::int64_t draw_delay(RandomStream& random, int kind) {
  switch (kind) {
    case 0:  // heavy ties: half of the events come at once, the rest on a few instants
      return static_cast<std::int64_t>(random.below(2) * random.below(3) * 1000000);
    case 1:  // neighbours, so that the lowest digits decide
      return static_cast<std::int64_t>(random.below(5));
    case 2:  // spread over 4.3 ms
      return static_cast<std::int64_t>(random.below(std::uint64_t{1} << 32));
    default:  // every magnitude from 1 ps to 2^50 ps = 19 minutes
      return static_cast<std::int64_t>(random.bits() >> (14 + random.below(50)));
  }
}

TEST_CASE("random pushes and pops come in the order of time, phase and insertion") {
  for (int kind = 0; kind < 4; ++kind) {
    for (std::uint64_t round = 0; round < 20; ++round) {
      CAPTURE(kind);
      CAPTURE(round);
      RandomStream random(Seed{11}, "event-queue-test", static_cast<std::uint64_t>(kind), round);
      EventQueue<int> queue;
      Reference reference;
      Ticks now{0};
      const int wanted = 1 << (round % 10);  // pending events, 1 to 512
      for (int i = 0; i < 2000; ++i) {
        const bool grow = static_cast<int>(queue.size()) < wanted ? random.below(4) > 0 : random.below(4) == 0;
        if (grow || queue.empty()) {
          const Ticks at = now + Ticks{draw_delay(random, kind)};
          const auto phase = static_cast<Phase>(random.below(kPhases));
          queue.push(at, phase, i);
          reference.push(at, phase, i);
        } else {
          now = pop_both(queue, reference);
        }
      }
      while (!queue.empty()) {
        pop_both(queue, reference);
      }
      CHECK(reference.queue.empty());
    }
  }
}

TEST_CASE("handling an event pushes others, now and later, as a run does") {
  RandomStream random(Seed{12}, "event-queue-test");
  EventQueue<int> queue;
  Reference reference;
  const auto push = [&](Ticks at, int event) {
    const auto phase = static_cast<Phase>(random.below(kPhases));
    queue.push(at, phase, event);
    reference.push(at, phase, event);
  };
  for (int i = 0; i < 300; ++i) {
    push(Ticks{static_cast<std::int64_t>(random.below(3)) * 5000}, i);
  }
  for (int i = 300; !queue.empty(); ++i) {
    const Ticks now = pop_both(queue, reference);
    for (std::uint64_t more = i < 5000 ? random.below(3) : 0; more > 0; --more) {
      push(now + Ticks{static_cast<std::int64_t>(random.below(4)) * 5000}, i);  // a quarter at this very instant
    }
  }
}

TEST_CASE("a thousand events of one instant keep phase and insertion order") {
  EventQueue<int> queue;
  for (int i = 0; i < 1000; ++i) {
    queue.push(Ticks{77}, static_cast<Phase>(4 - i % 5), i);
  }
  // Phase p holds the events i with 4 - i % 5 = p: i = 4 - p, 9 - p, 14 - p, ...
  for (int p = 0; p < 5; ++p) {
    for (int k = 0; k < 200; ++k) {
      const auto got = queue.pop();
      CHECK(got.key.phase == static_cast<Phase>(p));
      CHECK(got.event == 5 * k + 4 - p);
    }
  }
  CHECK(queue.empty());
}

TEST_CASE("the phases of one instant: finish, arrive, rebalance, schedule, sample") {
  EventQueue<std::string> queue;
  queue.push(Ticks{5}, Phase::Sample, "sample");
  queue.push(Ticks{5}, Phase::Schedule, "schedule");
  queue.push(Ticks{5}, Phase::Arrive, "arrive");
  queue.push(Ticks{5}, Phase::Rebalance, "rebalance");
  queue.push(Ticks{5}, Phase::Complete, "complete");
  queue.push(Ticks{4}, Phase::Sample, "earlier");
  for (const char* expected : {"earlier", "complete", "arrive", "rebalance", "schedule", "sample"}) {
    CHECK(queue.pop().event == expected);
  }
}

TEST_CASE("the past, an empty queue and nothing else is refused") {
  EventQueue<int> queue;
  CHECK_THROWS_AS(queue.pop(), InvariantBroken);
  CHECK_THROWS_AS(queue.push(Ticks{-1}, Phase::Arrive, 0), InvariantBroken);
  queue.push(Ticks{10}, Phase::Sample, 1);
  CHECK(queue.pop().event == 1);
  CHECK_THROWS_AS(queue.push(Ticks{9}, Phase::Arrive, 0), InvariantBroken);
  CHECK(queue.empty());
  queue.push(Ticks{10}, Phase::Complete, 2);  // the present is open, whatever the phase
  queue.push(Ticks{kLatest}, Phase::Complete, 4);
  queue.push(Ticks{kLatest - 1}, Phase::Sample, 3);
  for (int expected : {2, 3, 4}) {
    CHECK(queue.pop().event == expected);
  }
  CHECK(queue.now() == Ticks{kLatest});
}

TEST_CASE("events that can only be moved are carried and let go") {
  EventQueue<std::shared_ptr<int>> queue;
  const auto shared = std::make_shared<int>(3);
  for (int i = 0; i < 100; ++i) {
    queue.push(Ticks{100 - i}, Phase::Arrive, shared);
  }
  CHECK(shared.use_count() == 101);
  while (!queue.empty()) {
    queue.pop();
  }
  CHECK(shared.use_count() == 1);  // popped slots hold nothing back

  EventQueue<std::unique_ptr<int>> unique;
  unique.push(Ticks{1}, Phase::Arrive, std::make_unique<int>(8));
  CHECK(*unique.pop().event == 8);
}

}  // namespace
}  // namespace epsim
