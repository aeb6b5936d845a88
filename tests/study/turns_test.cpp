// Rates of conversations whose turns wait for answers: what is offered goes by when turns are due, latencies by when they come.
#include <doctest/doctest.h>

#include <vector>

#include "sim/cluster/simulate.h"
#include "sim/report/summary.h"
#include "sim/study/load_point.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

// 4,000 turns of five conversations, `rate` turns due a second, on a service of 100 a second. No turn comes before the one
// before it in its conversation has its answer.
RunResult served(double rate) {
  RequestTrace trace{"conversations", {}};
  for (int i = 0; i < 4000; ++i) {
    trace.requests.push_back({to_ticks(Seconds{i / rate}), 1, 1});
    trace.turn_before.push_back(i < 5 ? -1 : i - 5);
  }
  ServingOptions options = test::one_rank(4096);
  options.max_running_requests = 1;
  test::FixedPricer pricer(Seconds{0.01});
  return simulate(trace, options, pricer, {});
}

}  // namespace

TEST_CASE("turns that wait are served late, not offered late") {
  for (const double times : {3.0, 10.0}) {
    const RunResult run = served(100 * times);
    CHECK(run.turns_waited > 3900);
    const LoadPoint point = measure_load_point(run, 100 * times, {});
    CHECK(point.measured_offered == doctest::Approx(100 * times).epsilon(0.01));
    CHECK(point.completed == doctest::Approx(100).epsilon(0.01));
    // Five clients, one served at a time: a turn waits for the four others and takes its own 10 ms.
    CHECK(point.ttft_s.max == doctest::Approx(0.05));
    const RunSummary summary = summarize(run);
    CHECK(summary.number("offered_requests_per_s") == doctest::Approx(100 * times));
    CHECK(summary.number("overloaded") == 1);
    CHECK(summary.number("turns_waited") == static_cast<double>(run.turns_waited));
  }
}

// Ten conversations a second of eight turns 0.1 s apart, each of which takes 0.5 s: 80 turns a second, of which 40 are served at once
// and, 0.4 s later with every turn, 80 x 0.4 x 3.5 wait on average.
TEST_CASE("answers that outlast the time between turns make them late, and the service keeps up") {
  RequestTrace trace{"conversations", {}};
  for (int i = 0; i < 8000; ++i) {  // in order of time: at step t, turn k of the conversation that began k steps before
    const int step = i / 8, turn = i % 8;
    trace.requests.push_back({to_ticks(Seconds{step / 10.0}), 1, 50});
    trace.turn_before.push_back(turn == 0 || step == 0 ? -1 : i - 8 - 1);
  }
  test::FixedPricer pricer(Seconds{0.01});
  const RunResult run = simulate(trace, test::one_rank(100'000), pricer, {});
  CHECK(run.turns_waited > 6900);  // seven of eight but for the first steps
  const LoadPoint point = measure_load_point(run, 80, {});
  CHECK(point.concurrency == doctest::Approx(40).epsilon(0.05));
  CHECK(point.outstanding == doctest::Approx(40 + 80 * 0.4 * 3.5).epsilon(0.05));
  CHECK(point.completed == doctest::Approx(80).epsilon(0.01));
  CHECK(point.stable);
  CHECK(summarize(run).number("overloaded") == 0);
}

TEST_CASE("turns that come as they are due are neither late nor too many") {
  const RunResult run = served(50);
  CHECK(run.turns_waited == 0);
  const LoadPoint point = measure_load_point(run, 50, {});
  CHECK(point.completed == doctest::Approx(50).epsilon(0.01));
  CHECK(point.stable);
  CHECK(summarize(run).number("overloaded") == 0);
}

}  // namespace epsim
