// Conversations at another rate: more of them, each at its own pace.
#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <vector>

#include "sim/scenario/scenario.h"
#include "sim/study/load_point.h"
#include "tests/support/small_scenario.h"

namespace epsim {
namespace {

// Times from the first to the second turn of the conversations that have one, in order of their first turns.
std::vector<Ticks> first_gaps(const RequestTrace& trace) {
  std::map<std::int32_t, std::vector<Ticks>> turns;  // by the first block, which no other conversation has
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    turns[trace.prefixes.of(i).front()].push_back(trace.requests[i].arrival);
  }
  std::vector<Ticks> out;
  for (const auto& [block, at] : turns) {
    if (at.size() > 1) {
      out.push_back(at[1] - at[0]);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("sessions at another pace begin as much oftener, and their turns keep their distance") {
  const Scenario s = test::small(
      {"requests={kind: sessions, session_rate: 2/s, turns: 3, think_time: 5s, max_context: 4000, input_tokens: 100, "
       "output_tokens: 20, block_tokens: 16, count: 100}"});
  const RequestTrace once = s.make_requests(3000), thrice = s.make_paced(3000, 3);
  // 1,000 conversations in 500 s, or in 167 s: their number varies by 3 %.
  CHECK(arrival_rate(once) == doctest::Approx(2 * 3).epsilon(0.1));
  CHECK(arrival_rate(thrice) == doctest::Approx(3 * 2 * 3).epsilon(0.1));
  // Steady after four mean lifetimes, 4 x 3 x 5 s, at either rate.
  CHECK(thrice.ramp > 2 * once.ramp);
  const std::vector<Ticks> slow = first_gaps(once), fast = first_gaps(thrice);
  REQUIRE(slow.size() > 100);
  CHECK(std::vector(slow.begin(), slow.begin() + 100) == std::vector(fast.begin(), fast.begin() + 100));
}

TEST_CASE("requests that do not hang together have one pace, at which all of their times scale") {
  CHECK_FALSE(test::small({}).make_paced);
}

TEST_CASE("requests.rate sets how many arrive only where the kind of requests has that key") {
  CHECK(takes_rate(test::small({})));  // poisson
  CHECK_FALSE(
      takes_rate(test::small({"requests={kind: onoff, on_rate: 30/s, on_time: 1s, off_time: 1s, count: 4, "
                              "input_tokens: 7, output_tokens: 2}"})));
}

}  // namespace epsim
