// Clients with one request in flight each: what Little's law and a fixed time of service say exactly.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sim/cluster/simulate.h"
#include "sim/core/error.h"
#include "sim/study/goodput.h"
#include "tests/cluster/random_deployment.h"
#include "tests/support/errors.h"
#include "tests/support/small_scenario.h"

namespace epsim {
namespace {

using test::FixedPricer;
using test::kMs;
using test::one_rank;

// `count` requests of 10 input and 3 output tokens: a prefill step and two decodes, 30 ms with steps of 10 ms where
// prompts and decodes share steps.
RequestTrace loop_of(int concurrency, std::size_t count, std::int64_t warmup = 0) {
  RequestTrace out{"test", std::vector<Request>(count + static_cast<std::size_t>(warmup), {Ticks{}, 10, 3})};
  out.closed_loop = {.concurrency = concurrency, .warmup = warmup};
  return out;
}

// Most requests that are in the system at once; one that ends as another begins does not meet it.
int most_at_once(const RunResult& run) {
  std::vector<std::pair<Ticks, int>> changes;
  for (const RequestRecord& r : run.requests) {
    changes.emplace_back(r.arrival, 1);
    changes.emplace_back(r.finished, -1);
  }
  std::sort(changes.begin(), changes.end());
  int now = 0, most = 0;
  for (const auto& [at, change] : changes) {
    now += change;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

TEST_CASE("closed loop of one client: requests follow each other without a gap") {
  FixedPricer pricer(10_ms);
  const RunResult run = simulate(loop_of(1, 5), one_rank(100), pricer, {});
  for (int i = 0; i < 5; ++i) {
    CAPTURE(i);
    const RequestRecord& r = run.requests[static_cast<std::size_t>(i)];
    CHECK(r.arrival == 30 * i * kMs);
    CHECK(r.first_token == (30 * i + 10) * kMs);
    CHECK(r.finished == 30 * (i + 1) * kMs);
  }
  CHECK(run.latency.ttft_s.max == doctest::Approx(0.010));  // from when it was sent
  CHECK(run.concurrency == 1);
}

TEST_CASE("closed loop: throughput is clients / residence") {
  for (const int clients : {2, 4, 8}) {
    CAPTURE(clients);
    FixedPricer pricer(10_ms);
    const RunResult run = simulate(loop_of(clients, 40), one_rank(1000), pricer, {});
    // Everything that is sent at one instant shares its three steps, so 40 / clients rounds of 30 ms.
    CHECK(run.end == 40 / clients * 30 * kMs);
    CHECK(static_cast<double>(run.completed) / to_seconds(run.end).count() == doctest::Approx(clients / 0.030));
    CHECK(run.conservation.little_l == doctest::Approx(clients));  // all clients have one in flight all the time
    CHECK(most_at_once(run) == clients);
  }
}

TEST_CASE("closed loop: more clients than requests is a burst") {
  FixedPricer pricer(10_ms);
  const RunResult run = simulate(loop_of(100, 7), one_rank(1000), pricer, {});
  CHECK(run.completed == 7);
  CHECK(run.end == 30 * kMs);
}

TEST_CASE("closed loop: the measured part starts when the warm-up has ended, and counts nothing of it") {
  FixedPricer pricer(10_ms);
  RequestTrace trace = loop_of(2, 4, 3);
  trace.requests[0].output_tokens = trace.requests[1].output_tokens = trace.requests[2].output_tokens = 5;  // 50 ms
  const RunResult run = simulate(trace, one_rank(1000), pricer, {});
  // Warm-up: two requests until 50 ms, the third until 100. Measured: two rounds of two, 30 ms each.
  CHECK(run.requests[2].arrival == 50 * kMs);
  CHECK(run.requests[3].arrival == 100 * kMs);
  CHECK(run.requests[4].arrival == 100 * kMs);
  CHECK(run.end == 160 * kMs);
  CHECK(run.measured().size() == 4);
  CHECK(run.completed == 4);
  CHECK(run.input_tokens == 4 * 10);
  CHECK(run.output_tokens == 4 * 3);
  CHECK(run.latency.ttft_s.count == 4);
  CHECK(run.latency.itl_s.count == 4 * 2);
  CHECK(run.latency.e2e_s.max == doctest::Approx(0.030));
}

TEST_CASE("closed loop: clients begin evenly over the ramp") {
  FixedPricer pricer(10_ms);
  RequestTrace trace = loop_of(4, 8);
  trace.closed_loop.ramp = 40 * kMs;
  const RunResult run = simulate(trace, one_rank(1000), pricer, {});
  for (int i = 0; i < 4; ++i) {
    CHECK(run.requests[static_cast<std::size_t>(i)].arrival == 10 * i * kMs);
  }
  CHECK(run.requests[4].arrival == 30 * kMs);  // the first client's second
  CHECK(most_at_once(run) <= 4);
}

TEST_CASE("closed loop on random deployments: never more than the clients, all requests end, with losses too") {
  std::int64_t failed = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    CAPTURE(i);
    RandomStream random(Seed{2033}, "closed-loop", i);
    RequestTrace trace = test::random_trace(random);
    for (Request& r : trace.requests) {
      r.arrival = Ticks{};
    }
    trace.closed_loop.concurrency = static_cast<int>(1 + random.below(12));
    trace.closed_loop.warmup = static_cast<std::int64_t>(random.below(trace.requests.size()));
    trace.closed_loop.ramp = Ticks{static_cast<std::int64_t>(random.below(2) * 5'000'000'000)};
    test::RandomDeployment deployment(random);
    if (i % 2 == 0) {
      test::add_random_losses(random, deployment);
    }
    const RunResult run = simulate(trace, deployment.specs, deployment.router, {}, 1);
    CHECK(run.completed + run.failed == std::ssize(run.measured()));
    CHECK(most_at_once(run) <= trace.closed_loop.concurrency);
    CHECK(run.latency.ttft_s.count == static_cast<std::size_t>(run.completed));
    failed += run.failed;
    std::string other;
    std::thread([&] { other = simulate(trace, deployment.specs, deployment.router, {}, 1).fingerprint; }).join();
    CHECK(other == run.fingerprint);
  }
  CHECK(failed > 0);
}

TEST_CASE("closed loop: there is no rate to search") {
  const InputError error = test::error_of<InputError>([] {
    const Scenario scenario =
        test::small({"requests={kind: closed_loop, concurrency: 4, count: 40, input_tokens: 700, "
                     "output_tokens: 12}"});
    targets_of({scenario}, {});
  });
  test::check_contains(error.what(), {"requests.kind", "epsim sweep --vary requests.concurrency"});
}

TEST_CASE("hardware that changes during a run has no rate to search, hardware that is slow from the start has one") {
  const auto targets = [](const char* faults) {
    return targets_of(
               {test::small(
                   {"requests={kind: poisson, rate: 9/s, count: 40, input_tokens: 700, output_tokens: 12}", faults})},
               {})
        .size();
  };
  CHECK(targets("faults=[{at: 0s, gpu: 1, speed: 0.5}]") == 1);
  for (const char* faults :
       {"faults=[{at: 3s, gpu: 1, speed: 0.5}]", "faults=[{at: 0s, until: 3s, gpu: 1, speed: 0.5}]"}) {
    const InputError error = test::error_of<InputError>([&] { targets(faults); });
    test::check_contains(error.what(), {"`faults`", "Use at: 0s without until"});
  }
}

TEST_CASE("what the warm-up finds in the prefix cache is in no figure") {
  RequestTrace trace = loop_of(1, 2, 2);
  trace.prefixes = {4, 4, {0, 2, 4, 6, 8}, {0, 1, 0, 1, 2, 3, 2, 3}};  // the second of each two is like the first
  FixedPricer pricer(10_ms);
  const RunResult run = simulate(trace, one_rank(100), pricer, {});
  CHECK(run.kv.lookup_tokens == 20);
  CHECK(run.kv.hit_tokens == 8);
}

// 30 ms each: the second turn is due at 10 ms and comes at 30, the third 60 ms after it, as it is due. The other conversation's
// turns wait for nobody else's.
TEST_CASE("a turn of a conversation waits for the answer before it") {
  RequestTrace trace{"test", {{0 * kMs, 10, 3}, {0 * kMs, 10, 3}, {10 * kMs, 10, 3}, {70 * kMs, 10, 3}}};
  trace.turn_before = {-1, -1, 0, 2};
  FixedPricer pricer(10_ms);
  const RunResult run = simulate(trace, one_rank(100), pricer, {});
  CHECK(run.requests[2].arrival == 30 * kMs);
  CHECK(run.requests[2].finished == 60 * kMs);
  CHECK(run.requests[3].arrival == 90 * kMs);
  CHECK(run.turns_waited == 1);
  CHECK(run.latency.ttft_s.max == doctest::Approx(0.010));  // from when it was sent
  // Of the first conversation's turns without its second, the third waits for the first.
  const RequestTrace part = trace.select(std::vector<std::size_t>{0, 1, 3});
  CHECK(part.turn_before == std::vector<std::int32_t>{-1, -1, 0});
  // What stands before it is not waited for.
  CHECK(trace.select(std::vector<std::size_t>{2, 0}).turn_before == std::vector<std::int32_t>{-1, -1});
}

}  // namespace epsim
