// Random small scenarios. simulate() audits each run itself (see audit.h); the test adds what a run's figures must
// agree on however they were added up.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "sim/cluster/simulate.h"
#include "sim/core/rng.h"
#include "tests/cluster/random_scenario.h"

namespace epsim {
namespace {

using test::random_options;
using test::random_trace;
using test::UnevenPricer;

// The gaps between a request's tokens sum to last token - first token, whatever steps they spanned.
void check_gaps(const RunResult& run) {
  double between = 0, tokens = 0;
  for (const RequestRecord& r : run.requests) {
    between += to_seconds(r.finished - r.first_token).count();
    tokens += r.output_tokens - 1;
  }
  CHECK(static_cast<double>(run.latency.itl_s.count) == tokens);
  CHECK(run.latency.itl_s.mean * tokens == doctest::Approx(between));
}

void check_first_come_first_served(const RunResult& run) {
  for (std::size_t i = 0; i < run.requests.size(); ++i) {
    for (std::size_t j = i + 1; j < run.requests.size(); ++j) {
      if (run.requests[i].rank == run.requests[j].rank) {
        REQUIRE(run.requests[i].admitted <= run.requests[j].admitted);
        REQUIRE(run.requests[i].first_token <= run.requests[j].first_token);
      }
    }
  }
}

}  // namespace

TEST_CASE("invariants hold on random scenarios, and a second run equals the first") {
  for (std::uint64_t i = 0; i < 600; ++i) {
    CAPTURE(i);
    RandomStream random(Seed{2024}, "serving-fuzz", i);
    const RequestTrace trace = random_trace(random);
    const ServingOptions options = random_options(random);
    UnevenPricer pricer;
    const RunResult run = simulate(trace, options, pricer, {});
    REQUIRE(run.completed == std::ssize(trace.requests));
    check_gaps(run);
    check_first_come_first_served(run);
    CHECK(run.kv.mean_use <= 1);
    CHECK(run.time.total.count() <= to_seconds(run.end).count() * (1 + 1e-9) + 1e-9);
    CHECK(simulate(trace, options, pricer, {}).fingerprint == run.fingerprint);
  }
}

namespace {

struct EngineRuns {
  std::int64_t retractions = 0, hits = 0, replayed = 0, vllm = 0, trtllm = 0;
};

// One random scenario under one of the engines. What simulate() checks inside (audit.h) is most of the test: tokens and
// KV memory are conserved whatever is retracted, cached and evicted.
void run_engine(std::uint64_t i, EngineRuns& sums) {
  CAPTURE(i);
  RandomStream random(Seed{2026}, "engine-fuzz", i);
  RequestTrace trace = random_trace(random);
  ServingOptions options = random_options(random);
  test::choose_engine(random, options);
  if (random.below(3) != 0) {
    trace.prefixes =
        test::random_prefixes(random, trace, options.kv_block_tokens * (1 + static_cast<int>(random.below(3))));
  }
  CAPTURE(options.engine);
  UnevenPricer pricer;
  const RunResult run = simulate(trace, options, pricer, {});
  REQUIRE(run.completed == std::ssize(trace.requests));
  check_gaps(run);
  CHECK(run.kv.hit_tokens <= run.kv.lookup_tokens);
  CHECK(run.kv.peak_blocks <= options.kv_blocks);
  CHECK(run.conservation.little_l == doctest::Approx(run.conservation.little_lambda_w));
  CHECK(simulate(trace, options, pricer, {}).fingerprint == run.fingerprint);
  sums.retractions += run.kv.retractions;
  sums.hits += run.kv.hit_tokens;
  sums.replayed += run.replayed_steps;
  sums.vllm += options.engine == "vllm_v1" ? run.kv.retractions : 0;
  if (options.engine == "trtllm_1_x") {
    ++sums.trtllm;
    CHECK(run.kv.retractions == 0);
  }
}

}  // namespace

TEST_CASE("the engines hold the invariants on random scenarios, and all of their ways are taken") {
  EngineRuns sums;
  for (std::uint64_t i = 0; i < 900; ++i) {
    run_engine(i, sums);
  }
  CHECK(sums.retractions > 100);
  CHECK(sums.vllm > 100);
  CHECK(sums.trtllm > 100);
  CHECK(sums.hits > 1000);
  CHECK(sums.replayed > 1000);
}

TEST_CASE("a random scenario may be stopped after any step and still adds up") {
  int cut_short = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    CAPTURE(i);
    RandomStream random(Seed{2025}, "serving-stop", i);
    const RequestTrace trace = random_trace(random);
    const ServingOptions options = random_options(random);
    UnevenPricer pricer;
    const auto last = static_cast<std::int64_t>(1 + random.below(30));
    const test::StopAfter stop(last);
    const RunResult run = simulate(trace, options, pricer, stop.control);
    CHECK(run.interrupted == (run.completed < std::ssize(trace.requests)));
    CHECK((run.steps == last || !run.interrupted));
    cut_short += run.interrupted ? 1 : 0;
  }
  CHECK(cut_short > 50);
}

TEST_CASE("the fingerprint tells runs apart") {
  const RequestTrace trace = test::trace_of({{0, 100, 4}, {1, 30, 2}, {2, 5, 1}});
  ServingOptions options = test::one_rank(50);
  options.dp_ranks = 2;
  test::FixedPricer pricer(10_ms), slower(Seconds{0.010000000001});  // one picosecond a step
  const std::string base = simulate(trace, options, pricer, {}).fingerprint;
  CHECK(simulate(trace, options, slower, {}).fingerprint != base);
  CHECK(simulate(test::trace_of({{0, 100, 4}, {1, 30, 2}, {2, 6, 1}}), options, pricer, {}).fingerprint != base);
  ServingOptions other = options;
  other.token_budget = 49;
  CHECK(simulate(trace, other, pricer, {}).fingerprint != base);
}

}  // namespace epsim
