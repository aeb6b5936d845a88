// The audit must notice what it is there for: a right run is accepted, and each kind of damage is not.
#include "sim/cluster/audit.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <vector>

#include "sim/core/check.h"
#include "sim/scheduler/engines.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

using test::kMs;

// One rank that served A (4 in, 2 out) and B (3 in, 1 out), both from 1 to 2 ms, A until 3 ms.
struct Run {
  RunResult result;
  RunCounters counters;
  std::vector<std::unique_ptr<Scheduler>> ranks;

  Run() {
    result.requests = test::records_of({{1, 4, 2}, {1, 3, 1}});
    ranks.push_back(make_scheduler(test::one_rank(10), {result.requests}));
    counters.requests.advance(1 * kMs);
    for (int i = 0; i < 2; ++i) {
      result.requests[static_cast<std::size_t>(i)].place = RequestPlace::kRank;
      ranks[0]->enqueue(i);
      counters.requests.arrived();
    }
    for (int step = 1; step <= 2; ++step) {
      const RankBatch& batch = ranks[0]->begin_step(step * kMs);
      counters.prefill_tokens += batch.prefill_tokens;
      counters.decode_tokens += batch.decode_tokens;
      result.end = (step + 1) * kMs;
      counters.requests.advance(result.end);
      ranks[0]->end_step();
      const std::int64_t finished = ranks[0]->hand_out(result.end, counters.gaps);
      counters.requests.left(finished);
      result.completed += finished;
    }
  }
};

}  // namespace

TEST_CASE("the audit accepts a right run and fills in Little's law") {
  Run run;
  audit_run(run.result, run.counters, run.ranks);
  CHECK(run.result.conservation.little_l == doctest::Approx((2 + 1) / 3.0));  // A 2 ms, B 1 ms, of 3 ms
  CHECK(run.result.conservation.little_lambda_w == doctest::Approx((2 + 1) / 3.0));
}

TEST_CASE("the audit refuses a damaged run") {
  const std::vector<std::function<void(Run&)>> damage = {
      [](Run& r) { ++r.counters.prefill_tokens; },
      [](Run& r) { --r.counters.decode_tokens; },
      [](Run& r) { r.counters.gaps.add(1 * kMs, 1); },
      [](Run& r) { r.counters.requests.arrived(); },  // a request lost
      [](Run& r) { ++r.result.completed; },
      [](Run& r) { r.result.requests[0].finished += Ticks{1}; },  // Little, by one picosecond
      [](Run& r) { r.result.requests[0].finished = 2 * kMs; },    // two tokens at once
      [](Run& r) { r.result.requests[1].admitted = 0 * kMs; },    // before it arrived
      [](Run& r) { r.result.requests[1].first_token = 1 * kMs; },
      [](Run& r) { r.result.requests[1].place = RequestPlace::kAway; },
      [](Run& r) { r.result.requests[1].state = RequestState::kRunning; },
      [](Run& r) {
        r.ranks[0] = make_scheduler(test::one_rank(10), {r.result.requests});
        r.ranks[0]->enqueue(0);
        r.ranks[0]->begin_step(Ticks{});
      }};  // KV blocks held by nobody
  for (std::size_t i = 0; i < damage.size(); ++i) {
    CAPTURE(i);
    Run run;
    damage[i](run);
    CHECK_THROWS_AS(audit_run(run.result, run.counters, run.ranks), InvariantBroken);
  }
}

}  // namespace epsim
