// The serving loop as a queue whose waiting time theory knows. One rank that serves one request at a time, with steps
// of fixed length D, is a single server; a step that begins with an arrival at an idle instance adds no waiting of its
// own. Mean wait of M/G/1 (Pollaczek 1930, Khinchine 1932): lambda * E[S^2] / (2 * (1 - rho)).
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "sim/cluster/simulate.h"
#include "sim/core/rng.h"
#include "sim/core/statistics.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

constexpr double kStep = 0.01;  // D, seconds

struct Wait {
  double mean, half_width;
};

// Poisson arrivals at `rate`, one input token, and output lengths of the given mean: geometric, or always 1.
Wait measure_wait(double rate, double mean_output, int requests, std::uint64_t seed) {
  RandomStream arrivals(Seed{seed}, "arrivals");
  RandomStream lengths(Seed{seed}, "lengths");
  RequestTrace trace{"queue", {}};
  Seconds at{};
  for (int i = 0; i < requests; ++i) {
    at += Seconds{arrivals.exponential(1 / rate)};
    trace.requests.push_back({to_ticks(at), 1, static_cast<std::int32_t>(lengths.geometric(mean_output))});
  }
  ServingOptions options = test::one_rank(4096);
  options.max_running_requests = 1;
  test::FixedPricer pricer(Seconds{kStep});
  const RunResult run = simulate(trace, options, pricer, {});
  std::vector<double> waits;
  for (const RequestRecord& r : run.requests) {
    waits.push_back(to_seconds(r.admitted - r.arrival).count());
  }
  CHECK(summarize(waits).mean == doctest::Approx(run.latency.queue_s.mean));
  return {run.latency.queue_s.mean, batch_means_half_width(waits)};
}

}  // namespace

TEST_CASE("M/D/1: the mean wait is rho * D / (2 * (1 - rho))") {
  for (const double rho : {0.5, 0.8}) {
    CAPTURE(rho);
    const Wait wait = measure_wait(rho / kStep, 1, 200'000, 1);
    const double expected = rho * kStep / (2 * (1 - rho));  // E[S^2] = D^2; 5 ms and 20 ms
    CAPTURE(wait.mean);
    CAPTURE(wait.half_width);
    CHECK(std::abs(wait.mean - expected) <= wait.half_width);
    CHECK(wait.half_width <= 0.05 * expected);  // so that the interval is not wide enough for anything
  }
}

TEST_CASE("M/M/1: the mean wait is rho / (1 - rho) of the mean service time") {
  // Service is a number of steps, so the exponential is approached by a geometric count of mean m: p = 1 / m, and S = G
  // * D has E[G^2] = (2 - p) / p^2. Its exact wait (M/G/1) falls short of M/M/1's by p / 2, here 2 %: less than the
  // interval.
  const double m = 25, p = 1 / m;
  for (const double rho : {0.5, 0.8}) {
    CAPTURE(rho);
    const double rate = rho / (m * kStep);
    const double exact = rate * kStep * kStep * (2 - p) / (p * p) / (2 * (1 - rho));
    const double exponential = rho / (1 - rho) * m * kStep;
    CHECK(exact / exponential == doctest::Approx(1 - p / 2));
    const Wait wait = measure_wait(rate, m, 100'000, 2);
    CAPTURE(wait.mean);
    CAPTURE(wait.half_width);
    CHECK(std::abs(wait.mean - exact) <= wait.half_width);
    CHECK(std::abs(wait.mean - exponential) <= wait.half_width);
    CHECK(wait.half_width <= 0.1 * exponential);
  }
}

}  // namespace epsim
