#include "sim/scheduler/speculative_set.h"

#include <doctest/doctest.h>

#include <vector>

#include "sim/cluster/simulate.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

using test::kMs;

}  // namespace

TEST_CASE("all proposals accepted: a step yields one token more than proposed, and no more than are wanted") {
  SpeculativeSet set({2, 1.0}, 4, Seed{1}, 0);
  set.join(5, 7, 7, 0 * kMs);
  GapSamples gaps;
  std::vector<std::int32_t> finished;
  CHECK(set.step_tokens() == 3);
  CHECK(set.pages_to_begin() == 1);  // 7 -> 10 tokens in pages of 4
  CHECK(set.advance(1 * kMs, gaps, finished) == 0);
  CHECK(set.context() == 10);
  CHECK(set.tokens_to_come(100) == 4);
  set.advance(2 * kMs, gaps, finished);
  CHECK(set.step_tokens() == 1);  // one token to come: nothing to propose
  CHECK(finished.empty());
  set.advance(3 * kMs, gaps, finished);
  CHECK(finished == std::vector<std::int32_t>{5});
  CHECK(set.size() == 0);
  CHECK(set.context() == 0);
  CHECK(set.step_tokens() == 0);
  CHECK(set.rejected() == 0);
  CHECK(gaps.count() == 7);
  CHECK(gaps.summary().mean == doctest::Approx(3e-3 / 7));  // three gaps of 1 ms, four of 0
}

TEST_CASE("no proposal accepted: one token a step, and pages set aside in vain are given back") {
  SpeculativeSet set({3, 0.0}, 1, Seed{1}, 0);
  set.join(1, 10, 3, 0 * kMs);
  GapSamples gaps;
  std::vector<std::int32_t> finished;
  CHECK(set.pages_to_begin() == 3);  // two proposals: three tokens are wanted
  CHECK(set.advance(1 * kMs, gaps, finished) == 2);
  CHECK(set.rejected() == 2);
  CHECK(set.pages_to_begin() == 2);
  CHECK(set.advance(2 * kMs, gaps, finished) == 1);
  CHECK(set.advance(3 * kMs, gaps, finished) == 0);
  CHECK(finished.size() == 1);
}

TEST_CASE("the tokens of a step average 1 + a + a^2") {
  SpeculativeSet set({2, 0.8}, 1, Seed{7}, 0);
  set.join(0, 1, 100'000, 0 * kMs);
  GapSamples gaps;
  std::vector<std::int32_t> finished;
  std::int64_t steps = 0;
  while (finished.empty()) {
    set.advance(++steps * kMs, gaps, finished);
  }
  // Deviation of one step's tokens is below 1, so that 41,000 steps give the mean to 0.005.
  CHECK(100'000.0 / static_cast<double>(steps) == doctest::Approx(1 + 0.8 + 0.64).epsilon(0.008));
}

TEST_CASE("a run with speculation: fewer steps, more tokens in each, and every request its tokens") {
  ServingOptions options = test::one_rank(100, false);
  test::sglang(options).reserve_full = false;
  options.speculative = {1, 1.0};
  test::FixedPricer pricer(10_ms, true);
  const RunResult run = simulate(test::trace_of({{0, 20, 6}, {0, 20, 4}}), options, pricer, {});
  // Prompts, then 2 + 2, 2 + 1 and 1 tokens.
  REQUIRE(pricer.batches.size() == 4);
  CHECK(pricer.batches[1][0].decode_tokens == 4);
  CHECK(pricer.batches[1][0].sampled == 4);
  CHECK(pricer.batches[2][0].decode_tokens == 3);
  CHECK(pricer.batches[3][0].decode_tokens == 1);
  CHECK(run.requests[0].finished == 40 * kMs);
  CHECK(run.requests[1].finished == 30 * kMs);
}

}  // namespace epsim
