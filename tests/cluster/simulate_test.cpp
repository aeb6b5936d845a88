#include "sim/cluster/simulate.h"

#include <doctest/doctest.h>

#include <atomic>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

using test::FixedPricer;
using test::kMs;
using test::one_rank;
using test::trace_of;

void check_times(const RequestRecord& r, std::int64_t admitted, std::int64_t first, std::int64_t finished) {
  CHECK(r.state == RequestState::kCompleted);
  CHECK(r.admitted == admitted * kMs);
  CHECK(r.first_token == first * kMs);
  CHECK(r.finished == finished * kMs);
}

// After every step the next one waits for 30 ms of planning.
class PausingPricer final : public FixedPricer {
 public:
  using FixedPricer::FixedPricer;
  void end_step(Ticks now) override { planned_ = now + 30 * kMs; }
  std::optional<Ticks> next_arrival() const override { return planned_; }
  void on_arrival(Ticks) override { planned_.reset(); }
  bool holds_steps() const override { return planned_.has_value(); }
  StepCost waited(Ticks due, Ticks now) override {
    StepCost out;
    out.total = out.by_part[static_cast<std::size_t>(LayerPart::kPlanning)] = to_seconds(now - due);
    out.by_origin[static_cast<std::size_t>(Origin::kDeclared)] = out.total;
    return out;
  }

 private:
  std::optional<Ticks> planned_;
};

struct SumOfSteps final : StepRecorder {
  void begin_step(const StepStart& start) override { add_cost(sum, start.waited); }
  void span(const StepSpan&) override {}
  void exchange(const StepExchange&) override {}
  void end_step(Ticks, const StepCost& cost) override { add_cost(sum, cost); }
  StepCost sum;
};

}  // namespace

// Steps of 10 ms, budget 100. A arrives at 5 and starts a step at once. B and C arrive while it runs, D after a pause.
//   5..15 A prefill (80)                15..25 A decodes, B 0..98 (99)
//  25..35 A decodes, B 99..119, C 0..29 35..45 A ends (4 tokens), B ends (2); C ended at 35 (1 token)
//  60..70 D, alone
TEST_CASE("the timeline of four requests, to the picosecond") {
  const RequestTrace trace = trace_of({{5, 80, 4}, {6, 120, 2}, {12, 30, 1}, {60, 10, 1}});
  FixedPricer pricer(10_ms, true);
  const RunResult run = simulate(trace, one_rank(100), pricer, {});
  check_times(run.requests[0], 5, 15, 45);
  check_times(run.requests[1], 15, 35, 45);
  check_times(run.requests[2], 25, 35, 35);
  check_times(run.requests[3], 60, 70, 70);
  CHECK(run.steps == 5);
  CHECK(run.of_kind(StepKind::kPrefill).steps == 2);  // 5..15, 60..70
  CHECK(run.of_kind(StepKind::kDecode).steps == 1);   // 35..45
  CHECK(run.of_kind(StepKind::kMixed).steps == 2);    // 15..25, 25..35
  CHECK(run.of_kind(StepKind::kPrefill).time.total.count() == doctest::Approx(0.020));
  CHECK(run.of_kind(StepKind::kDecode).time.total.count() == doctest::Approx(0.010));
  CHECK(run.of_kind(StepKind::kMixed).time.total.count() == doctest::Approx(0.020));
  CHECK(run.end == 70 * kMs);
  CHECK(run.completed == 4);
  CHECK(run.input_tokens == 80 + 120 + 30 + 10);
  CHECK(run.output_tokens == 4 + 2 + 1 + 1);
  CHECK_FALSE(run.interrupted);
  CHECK(run.time.total.count() == doctest::Approx(0.050));
  REQUIRE(pricer.batches.size() == 5);
  CHECK(pricer.batches[2][0].prefill_tokens == 21 + 30);

  CHECK(run.latency.ttft_s.mean == doctest::Approx((10 + 29 + 23 + 10) / 4.0 * 1e-3));
  CHECK(run.latency.e2e_s.mean == doctest::Approx((40 + 39 + 23 + 10) / 4.0 * 1e-3));
  CHECK(run.latency.queue_s.mean == doctest::Approx((0 + 9 + 13 + 0) / 4.0 * 1e-3));
  CHECK(run.latency.tpot_s.count == 2);  // A: 30 ms / 3, B: 10 ms / 1
  CHECK(run.latency.tpot_s.mean == doctest::Approx(10e-3));
  CHECK(run.latency.itl_s.count == 3 + 1);
  CHECK(run.latency.itl_s.p50 == doctest::Approx(10e-3));

  // Requests in the system: A 5..45, B 6..45, C 12..35, D 60..70, over 70 ms.
  CHECK(run.conservation.little_l == doctest::Approx((40 + 39 + 23 + 10) / 70.0));
  CHECK(run.conservation.little_lambda_w == run.conservation.little_l);
  // Tokens reserved while steps run: A 84, B 122, C 31, D 11.
  CHECK(run.kv.peak_blocks == 84 + 122 + 31);
  CHECK(run.kv.mean_use == doctest::Approx((84 * 40 + 122 * 30 + 31 * 10 + 11 * 10) / (70.0 * 1'000'000)));
  CHECK(run.kv.time_full_share == 0);
}

TEST_CASE("all ranks share a step, and one without work idles through it") {
  // Two ranks, round robin: A and C on rank 0, B on rank 1.
  const RequestTrace trace = trace_of({{0, 150, 1}, {0, 20, 1}, {0, 60, 1}});
  ServingOptions options = one_rank(100);
  options.dp_ranks = 2;
  FixedPricer pricer(10_ms, true);
  const RunResult run = simulate(trace, options, pricer, {});
  REQUIRE(pricer.batches.size() == 3);
  CHECK(pricer.batches[0][0].prefill_tokens == 100);
  CHECK(pricer.batches[0][1].prefill_tokens == 20);
  CHECK(pricer.batches[1][0].prefill_tokens == 50 + 50);
  CHECK(pricer.batches[1][1].tokens() == 0);
  CHECK(pricer.batches[2][0].prefill_tokens == 10);
  CHECK(pricer.batches[2][1].tokens() == 0);
  CHECK(run.requests[1].rank == 1);
  check_times(run.requests[0], 0, 20, 20);
  check_times(run.requests[1], 0, 10, 10);
  check_times(run.requests[2], 10, 30, 30);
}

// The rank of each request, of two that take 10 ms a step.
std::vector<std::int32_t> ranks_by(Router router, const RequestTrace& trace) {
  ServingOptions options = one_rank(100);
  options.dp_ranks = 2;
  options.router = router;
  FixedPricer pricer(10_ms);
  const RunResult run = simulate(trace, options, pricer, {});
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    out.push_back(run.requests[i].rank);
  }
  return out;
}

TEST_CASE("least_tokens sends a request where the least work is left") {
  // A (50 + 10) to rank 0, B (20 + 5) to rank 1, C (30 + 5) to rank 1: 25 < 60. Then 60 = 60, so D goes to rank 0.
  CHECK(ranks_by(Router::kLeastTokens, trace_of({{0, 50, 10}, {0, 20, 5}, {0, 30, 5}, {0, 1, 1}})) ==
        std::vector<std::int32_t>{0, 1, 1, 0});
}

TEST_CASE("even_requests sends no rank more than an even share of the requests") {
  // A to rank 0, B (of 20) to rank 1, C to rank 1: 20 < 50, and 3 requests make shares of 2. D to rank 0, as rank 1 has its 2.
  CHECK(ranks_by(Router::kEvenRequests, trace_of({{0, 50, 10}, {0, 20, 5}, {0, 5, 5}, {0, 1, 1}})) ==
        std::vector<std::int32_t>{0, 1, 1, 0});
}

TEST_CASE("least_requests sends a request where the fewest wait and run, a waiting one counted fourfold") {
  // A (11 steps of 10 ms) to rank 0, B (one) to rank 1. At 25 ms A runs and B has ended: C to rank 1, where it waits; then 1
  // running is less than 1 waiting, so D goes to rank 0. In turns C would go to rank 0 and D to rank 1.
  CHECK(ranks_by(Router::kLeastRequests, trace_of({{0, 50, 11}, {0, 1, 1}, {25, 1, 1}, {25, 1, 1}})) ==
        std::vector<std::int32_t>{0, 1, 1, 0});
}

TEST_CASE("an arrival at the very end of a step joins the next one") {
  const RequestTrace trace = trace_of({{0, 1, 1}, {10, 1, 1}, {10, 1, 1}});
  FixedPricer pricer(10_ms, true);
  const RunResult run = simulate(trace, one_rank(100), pricer, {});
  REQUIRE(pricer.batches.size() == 2);
  CHECK(pricer.batches[1][0].prefill_tokens == 2);
  CHECK(run.requests[2].finished == 20 * kMs);
}

TEST_CASE("the step gap is declared time of the part other") {
  const RequestTrace trace = trace_of({{0, 1, 3}});
  ServingOptions options = one_rank(100);
  options.step_gap = 2_ms;
  FixedPricer pricer(10_ms);
  const RunResult run = simulate(trace, options, pricer, {});
  CHECK(run.requests[0].finished == 36 * kMs);
  CHECK(run.time.by_part[static_cast<std::size_t>(LayerPart::kOther)].count() == doctest::Approx(0.006));
  CHECK(run.time.by_origin[static_cast<std::size_t>(Origin::kDeclared)].count() == doctest::Approx(0.036));
}

TEST_CASE("time in which KV blocks were lacking is counted") {
  // Pool of 10 tokens: A (6 + 3 = 9) runs three steps while B (5 + 1) waits, then B runs one.
  const RequestTrace trace = trace_of({{0, 6, 3}, {0, 5, 1}});
  ServingOptions options = one_rank(100);
  options.kv_blocks = 10;
  FixedPricer pricer(10_ms);
  const RunResult run = simulate(trace, options, pricer, {});
  CHECK(run.requests[1].admitted == 30 * kMs);
  CHECK(run.kv.time_full_share == doctest::Approx(3.0 / 4));
  CHECK(run.kv.mean_use == doctest::Approx((9 * 30 + 6 * 10) / (10.0 * 40)));
  CHECK(run.kv.peak_blocks == 9);
}

// Pool of 10 tokens. A (9 blocks) 0..10, 40..50 and 80..90 while B waits, B (6 blocks) 120..130.
TEST_CASE("what a step waits for is time of the KV pool, of lacking blocks and of the recorded step") {
  ServingOptions options = one_rank(100);
  options.kv_blocks = 10;
  PausingPricer pricer(10_ms);
  SumOfSteps recorder;
  RunControl control;
  control.recorder = &recorder;
  const RunResult run = simulate(trace_of({{0, 6, 3}, {0, 5, 1}}), options, pricer, control);
  CHECK(run.end == 130 * kMs);
  CHECK(run.kv.mean_use == doctest::Approx((9 * 90 + 6 * 10) / (10.0 * 130)));
  CHECK(run.kv.time_full_share == doctest::Approx((10 + 40 + 40) / 130.0));
  CHECK(run.time.by_part[static_cast<std::size_t>(LayerPart::kPlanning)].count() == doctest::Approx(0.09));
  for (std::size_t p = 0; p < kLayerParts; ++p) {
    CHECK(recorder.sum.by_part[p].count() == doctest::Approx(run.time.by_part[p].count()));
  }
  CHECK(recorder.sum.total.count() == doctest::Approx(0.13));
}

TEST_CASE("a request that no pool can hold is refused before the run, by name") {
  const RequestTrace trace = trace_of({{0, 6, 3}, {0, 100, 29}});
  ServingOptions options = one_rank(100);
  options.kv_blocks = 2;
  options.kv_block_tokens = 64;  // 128 tokens; the second request needs 129
  FixedPricer pricer(10_ms, true);
  try {
    simulate(trace, options, pricer, {});
    FAIL("the trace was accepted");
  } catch (const InputError& error) {
    CHECK(error.place.file == "test");
    CHECK(error.problem.find("request 2 ") != std::string::npos);
    CHECK(error.problem.find("129") != std::string::npos);
    CHECK(error.problem.find("128") != std::string::npos);
  }
  CHECK(pricer.batches.empty());
  options.kv_blocks = 3;
  CHECK(simulate(trace, options, pricer, {}).completed == 2);
}

TEST_CASE("requests of no length, and no requests, are refused") {
  FixedPricer pricer(10_ms);
  CHECK_THROWS_AS(simulate(trace_of({{0, 0, 1}}), one_rank(10), pricer, {}), InputError);
  CHECK_THROWS_AS(simulate(trace_of({{0, 1, 0}}), one_rank(10), pricer, {}), InputError);
  CHECK_THROWS_AS(simulate(trace_of({}), one_rank(10), pricer, {}), InputError);
}

TEST_CASE("a step that takes no time, or too much, ends the run with an error") {
  const RequestTrace trace = trace_of({{0, 1, 3}});
  FixedPricer none(0_s);
  CHECK_THROWS_AS(simulate(trace, one_rank(10), none, {}), InvariantBroken);
  FixedPricer nonsense(Seconds{std::numeric_limits<double>::quiet_NaN()});
  CHECK_THROWS_AS(simulate(trace, one_rank(10), nonsense, {}), InvariantBroken);
  FixedPricer days(Seconds{5e6});  // two steps pass 106 days
  CHECK_THROWS_AS(simulate(trace, one_rank(10), days, {}), RunFailed);
  FixedPricer years(Seconds{1e9});
  CHECK_THROWS_AS(simulate(trace, one_rank(10), years, {}), RunFailed);
}

namespace {

// Asks for the stop while it prices the given step, as a signal would.
class StoppingPricer : public InstanceModel {
 public:
  StoppingPricer(std::atomic<bool>& stop, std::int64_t at) : stop_(stop), at_(at) {}
  StepCost price(const StepAt& at, std::span<const RankBatch>) override {
    if (at.number == at_) {
      stop_ = true;
    }
    return test::declared_cost(10_ms);
  }

 private:
  std::atomic<bool>& stop_;
  std::int64_t at_;
};

}  // namespace

TEST_CASE("a run that is stopped keeps its complete steps") {
  // Budget 10: A (10 + 2) prefills in step 0 and ends in step 1; B (25) is cut in step 1 and goes on; C waits.
  const RequestTrace trace = trace_of({{0, 10, 2}, {0, 25, 2}, {0, 10, 2}, {900, 1, 1}});
  std::atomic<bool> stop = false;
  RunControl control;
  control.stop = &stop;
  StoppingPricer pricer(stop, 1);
  const RunResult run = simulate(trace, one_rank(10), pricer, control);
  CHECK(run.interrupted);
  CHECK(run.steps == 2);
  CHECK(run.end == 20 * kMs);
  CHECK(run.completed == 1);
  CHECK(run.requests[0].state == RequestState::kCompleted);
  CHECK(run.requests[1].state == RequestState::kRunning);
  CHECK(run.requests[2].state == RequestState::kWaiting);
  CHECK(run.requests[2].rank == 0);
  CHECK(run.requests[3].state == RequestState::kWaiting);
  CHECK_FALSE(run.requests[3].routed());  // had not arrived
  CHECK(run.latency.ttft_s.count == 1);
  CHECK(run.conservation.little_l == doctest::Approx(3.0));  // three in the system all the time
}

TEST_CASE("a run that is stopped before it begins is empty") {
  std::atomic<bool> stop = true;
  RunControl control;
  control.stop = &stop;
  FixedPricer pricer(10_ms);
  const RunResult run = simulate(trace_of({{7, 10, 2}}), one_rank(10), pricer, control);
  CHECK(run.interrupted);
  CHECK(run.steps == 0);
  CHECK(run.completed == 0);
}

TEST_CASE("progress is reported every few steps") {
  std::vector<Progress> told;
  RunControl control;
  control.progress_every_steps = 3;
  control.on_progress = [&](const Progress& p) { told.push_back(p); };
  FixedPricer pricer(10_ms);
  simulate(trace_of({{0, 1, 7}, {500, 1, 1}}), one_rank(10), pricer, control);  // 8 steps
  REQUIRE(told.size() == 2);
  CHECK(told[0].steps == 3);
  CHECK(told[0].now == 30 * kMs);
  CHECK(told[0].arrived == 1);
  CHECK(told[1].steps == 6);
  CHECK(told[1].completed == 0);
  CHECK(told[1].requests == 2);
}

TEST_CASE("a trace that gives its rows up is served like any other") {
  RequestTrace trace = trace_of({{5, 80, 4}, {6, 120, 2}, {12, 30, 1}, {60, 10, 1}});
  FixedPricer pricer(10_ms, true);
  InstanceSpec spec{.options = one_rank(100), .model = &pricer};
  const std::span<const InstanceSpec> specs(&spec, 1);
  const RunResult kept = simulate(trace, specs, Router::kRoundRobin, {});
  CHECK(trace.requests.size() == 4);
  const RunResult given = simulate(std::move(trace), specs, Router::kRoundRobin, {});
  CHECK(given.fingerprint == kept.fingerprint);
  check_times(given.requests[1], 15, 35, 45);
  CHECK(given.requests[1].input_tokens == 120);
}

TEST_CASE("a run of more ranks than records can name is refused") {
  FixedPricer pricer(10_ms);
  ServingOptions options = one_rank(10);
  options.dp_ranks = 65537;
  CHECK_THROWS_AS(simulate(trace_of({{0, 1, 1}}), options, pricer, {}), InvariantBroken);
}

}  // namespace epsim
