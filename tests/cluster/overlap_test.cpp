// When tokens are seen and requests enter where the schedule overlaps the steps (sim/cluster/instance.h): one rank,
// steps of 10 ms whatever is in them. Step i runs from 10 i to 10 (i + 1) ms.
#include <doctest/doctest.h>

#include <vector>

#include "sim/cluster/simulate.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

using test::kMs;
using test::trace_of;

enum class Host { kInTurn, kAhead, kHeld };

InstanceSpec spec_of(Host host, InstanceModel& model) {
  InstanceSpec spec;
  spec.options = test::one_rank(100, false);
  spec.options.overlap_schedule = host != Host::kInTurn;
  spec.model = &model;
  const EagerWork work{.launches = 0, .waits = host == Host::kHeld ? 1 : 0};
  spec.eager = {InstanceSpec::Eager{work}, InstanceSpec::Eager{work}};
  return spec;
}

RunResult run(Host host, const RequestTrace& trace, int max_running_requests = 0, int receive_interval = 1,
              Seconds request_time = {}) {
  test::FixedPricer pricer(10_ms);
  InstanceSpec spec = spec_of(host, pricer);
  spec.options.max_running_requests = max_running_requests;
  spec.options.receive_interval = receive_interval;
  spec.options.request_time = request_time;
  return simulate(trace, std::span<const InstanceSpec>(&spec, 1), Router::kRoundRobin, {});
}

}  // namespace

TEST_CASE("a token is seen when its step ends, or a step late where the launch of the next one holds the host") {
  const RequestTrace trace = trace_of({{0, 5, 3}});
  const RunResult in_turn = run(Host::kInTurn, trace), ahead = run(Host::kAhead, trace), held = run(Host::kHeld, trace);
  CHECK(in_turn.requests[0].first_token == 10 * kMs);
  CHECK(in_turn.requests[0].finished == 30 * kMs);
  CHECK(in_turn.steps == 3);
  CHECK(ahead.requests[0].first_token == 10 * kMs);
  CHECK(ahead.requests[0].finished == 30 * kMs);
  CHECK(ahead.steps == 4);  // batch 3 was put together before the last token of step 2 was seen
  CHECK(held.requests[0].first_token == 20 * kMs);
  CHECK(held.requests[0].finished == 40 * kMs);
  CHECK(held.steps == 4);
  for (const RunResult* r : {&in_turn, &ahead, &held}) {
    CHECK(r->latency.itl_s.count == 2);
    CHECK(r->latency.itl_s.mean == doctest::Approx(10e-3));
  }
}

TEST_CASE("a request that comes during step i runs in step i + 2, or i + 1 where the launch of step i holds the host") {
  // B comes in step 1, while A decodes.
  const RequestTrace trace = trace_of({{0, 5, 10}, {12, 5, 1}});
  CHECK(run(Host::kInTurn, trace).requests[1].admitted == 20 * kMs);
  CHECK(run(Host::kAhead, trace).requests[1].admitted == 30 * kMs);
  CHECK(run(Host::kHeld, trace).requests[1].admitted == 20 * kMs);
  // Batch 1 is put together when batch 0, the first, is launched: who comes during step 0 is in step 2 either way.
  const RequestTrace first = trace_of({{0, 5, 10}, {3, 5, 1}});
  CHECK(run(Host::kInTurn, first).requests[1].admitted == 10 * kMs);
  CHECK(run(Host::kAhead, first).requests[1].admitted == 20 * kMs);
  CHECK(run(Host::kHeld, first).requests[1].admitted == 20 * kMs);
}

TEST_CASE("a request that has its last token holds its place for another step") {
  // One request at a time. A's last token is made by step 1, and batch 2 is put together without knowing it.
  const RequestTrace trace = trace_of({{0, 5, 2}, {0, 5, 1}});
  CHECK(run(Host::kInTurn, trace, 1).requests[1].admitted == 20 * kMs);
  const RunResult ahead = run(Host::kAhead, trace, 1), held = run(Host::kHeld, trace, 1);
  CHECK(ahead.requests[1].admitted == 30 * kMs);
  CHECK(ahead.requests[1].first_token == 40 * kMs);
  CHECK(held.requests[0].finished == 30 * kMs);
  CHECK(held.requests[1].admitted == 30 * kMs);
  CHECK(held.requests[1].first_token == 50 * kMs);  // of step 3, seen when step 4, its decode too many, has ended
}

TEST_CASE("after a pause the next request starts at once") {
  for (const Host host : {Host::kAhead, Host::kHeld}) {
    CHECK(run(host, trace_of({{0, 5, 1}, {100, 5, 1}})).requests[1].admitted == 100 * kMs);
  }
}

// SGLang v0.5, managers/scheduler_recv_skipper.py: the loop counts 1 for a batch of decodes and 1000 for one with a prompt
// before it looks for requests, and does when it has counted to the interval.
TEST_CASE("with an interval of 4, requests are looked for after every fourth step of decodes") {
  // A's prompt is step 0. B comes in step 1; steps 1 to 4 are decodes, and batch 5 is the first that can have it.
  const RequestTrace trace = trace_of({{0, 5, 20}, {12, 5, 1}});
  for (const Host host : {Host::kInTurn, Host::kAhead}) {
    CHECK(run(host, trace, 0, 4).requests[1].admitted == 50 * kMs);
  }
  // B's prompt is step 5, after which they are looked for at once: C, who comes in step 4, need not wait for step 9.
  const RequestTrace third = trace_of({{0, 5, 20}, {12, 5, 1}, {45, 5, 1}});
  CHECK(run(Host::kInTurn, third, 0, 4).requests[2].admitted == 60 * kMs);
  CHECK(run(Host::kAhead, third, 0, 4).requests[2].admitted == 60 * kMs);
}

TEST_CASE("an interval keeps nobody waiting while nothing runs") {
  for (const Host host : {Host::kInTurn, Host::kAhead, Host::kHeld}) {
    CHECK(run(host, trace_of({{0, 5, 2}, {100, 5, 1}}), 0, 30).requests[1].admitted == 100 * kMs);
  }
}

TEST_CASE("a request's time outside the scheduler comes before its first step, and counts") {
  const RunResult idle = run(Host::kAhead, trace_of({{3, 5, 2}}), 0, 1, 7_ms);
  CHECK(idle.requests[0].arrival == 3 * kMs);
  CHECK(idle.requests[0].admitted == 10 * kMs);
  CHECK(idle.requests[0].first_token == 20 * kMs);
  CHECK(idle.latency.ttft_s.mean == doctest::Approx(17e-3));  // 7 + 10
  // B, at 12, is ready at 19, in step 1, as if it had come then.
  CHECK(run(Host::kInTurn, trace_of({{0, 5, 10}, {12, 5, 1}}), 0, 1, 7_ms).requests[1].admitted == 27 * kMs);
}

TEST_CASE("launches that take as long as the step hold the host like an exchange does") {
  test::FixedPricer pricer(10_ms);
  InstanceSpec spec = spec_of(Host::kAhead, pricer);
  spec.options.launch_time = 1_ms;
  spec.eager = {InstanceSpec::Eager{{.launches = 9}}, InstanceSpec::Eager{{.launches = 11}}};
  // The prompt's step takes 11 ms, its launches; the decodes take 10, and their launches 9: they run ahead.
  const auto first = [&](std::int32_t out) {
    return simulate(trace_of({{0, 5, out}}), std::span<const InstanceSpec>(&spec, 1), Router::kRoundRobin, {})
        .requests[0]
        .first_token;
  };
  CHECK(first(3) == 11 * kMs);
  spec.eager[0].batch.launches = 12;  // now decodes hold the host: their step of 12 ms ends at 23 ms
  CHECK(first(3) == 23 * kMs);
}

TEST_CASE("the host launches a model's kernels for each batch that a step runs as, and a drafter's once") {
  struct Halves : test::FixedPricer {
    explicit Halves(int n) : FixedPricer(10_ms), batches(n) {}
    StepCost price(const StepAt& at, std::span<const RankBatch> ranks) override {
      StepCost out = FixedPricer::price(at, ranks);
      out.batches = batches;
      return out;
    }
    int batches;
  };
  const auto first = [](int batches) {
    Halves pricer(batches);
    InstanceSpec spec = spec_of(Host::kAhead, pricer);
    spec.options.launch_time = 1_ms;
    spec.eager[1] = {.batch = {.launches = 9}, .drafter = {.launches = 4}};
    return simulate(trace_of({{0, 5, 1}}), std::span<const InstanceSpec>(&spec, 1), Router::kRoundRobin, {})
        .requests[0]
        .first_token;
  };
  CHECK(first(1) == 13 * kMs);
  CHECK(first(2) == 22 * kMs);  // 2 x 9 + 4
}

}  // namespace epsim
