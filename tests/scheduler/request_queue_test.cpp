#include "sim/scheduler/request_queue.h"

#include <doctest/doctest.h>

#include <deque>

#include "sim/core/rng.h"

namespace epsim {

TEST_CASE("requests leave the queue in the order in which they came") {
  RandomStream random(Seed{3}, "queue");
  RequestQueue queue;
  std::deque<std::int32_t> expected;
  for (std::int32_t i = 0; i < 5000; ++i) {
    // Pushes and pops balance over a long time, so that the queue grows, shrinks and empties.
    if (random.below(2) == 0) {
      queue.push(i);
      expected.push_back(i);
    } else if (!expected.empty()) {
      REQUIRE(queue.front() == expected.front());
      queue.pop();
      expected.pop_front();
    }
    REQUIRE(queue.size() == expected.size());
    REQUIRE(queue.empty() == expected.empty());
  }
}

}  // namespace epsim
