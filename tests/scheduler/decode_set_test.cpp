#include "sim/scheduler/decode_set.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "sim/cluster/simulate.h"
#include "sim/core/check.h"
#include "sim/core/rng.h"
#include "tests/support/fakes.h"

namespace epsim {

using test::kMs;

// A step whose tokens are handed out at its end.
static std::int64_t decode(DecodeSet& set, Ticks now, GapSamples& gaps, std::vector<std::int32_t>& finished) {
  const std::int64_t unused = set.advance();
  DecodeSet::Handed handed;
  CHECK(set.hand_out(now, false, gaps, handed) == 0);
  finished.insert(finished.end(), handed.finished.begin(), handed.finished.end());
  return unused;
}

TEST_CASE("two sequences decode together until each has its tokens") {
  DecodeSet set;
  GapSamples gaps;
  std::vector<std::int32_t> finished;
  set.join({7, 2, 100, 1 * kMs});
  set.join({8, 1, 50, 3 * kMs});
  CHECK(set.context() == 150);
  decode(set, 5 * kMs, gaps, finished);  // gaps 4 ms and 2 ms; 8 is done
  CHECK(finished == std::vector<std::int32_t>{8});
  CHECK(set.size() == 1);
  CHECK(set.context() == 101);
  decode(set, 6 * kMs, gaps, finished);  // gap 1 ms; 7 is done
  CHECK(finished == std::vector<std::int32_t>{8, 7});
  CHECK(set.size() == 0);
  CHECK(set.context() == 0);
  CHECK(gaps.count() == 3);
  CHECK(gaps.summary().mean == doctest::Approx((4 + 2 + 1) / 3.0 * 1e-3));
  CHECK(gaps.summary().max == doctest::Approx(4e-3));
}

TEST_CASE("a token that is not handed out keeps its sequence in the set, which decodes once more") {
  DecodeSet set(4);
  GapSamples gaps;
  DecodeSet::Handed handed;
  set.join({7, 1, 7, 1 * kMs});
  set.advance();
  set.join_made(9, 20, 0, std::nullopt);  // its prompt's end made its only token
  set.join_made(8, 50, 3, 2 * kMs);       // one more of a request that had some
  CHECK(set.spent() == 2);
  CHECK(set.step_tokens() == 3);
  CHECK(set.context() == 8 + 20 + 50);
  CHECK(set.pages_to_begin() == 2);  // 8 and 20 tokens fill their pages of 4
  CHECK(set.tokens_to_come(100) == 1 + 1 + 4);
  CHECK(set.hand_out(5 * kMs, true, gaps, handed) == 2);  // pages that 7 and 9 will not need
  CHECK(handed.finished == std::vector<std::int32_t>{7, 9});
  CHECK(handed.prompts == std::vector<std::int32_t>{9, 8});
  CHECK(set.spent() == 0);
  CHECK(set.step_tokens() == 1);
  CHECK(set.context() == 50);
  CHECK(gaps.count() == 2);  // 1 to 5 ms and 2 to 5 ms; the first token of 9 has none
  CHECK(gaps.summary().mean == doctest::Approx(3.5e-3));
}

TEST_CASE("a sequence with no token to come is refused") {
  DecodeSet set;
  CHECK_THROWS_AS(set.join({0, 0, 10, Ticks{}}), InvariantBroken);
}

// The same set, without sums that are kept from step to step.
struct NaiveSequence {
  std::int32_t request;
  std::int64_t context;
  std::int32_t left;
  Ticks last;
};

TEST_CASE("sums, gaps and order equal those of plain counting") {
  RandomStream random(Seed{11}, "decode");
  DecodeSet set;
  GapSamples gaps;
  std::vector<NaiveSequence> naive;
  std::vector<double> naive_gaps;
  Ticks now{};
  std::int32_t next = 0;
  for (int step = 0; step < 2000; ++step) {
    now += static_cast<std::int64_t>(1 + random.below(3)) * kMs;
    if (random.below(3) == 0) {  // joins come at the end of some steps, decodes at the end of others
      const NaiveSequence s{next++, 1 + static_cast<std::int64_t>(random.below(1000)),
                            1 + static_cast<std::int32_t>(random.below(40)), now};
      set.join({s.request, s.left, s.context, now});
      naive.push_back(s);
      continue;
    }
    std::vector<std::int32_t> finished, expected;
    decode(set, now, gaps, finished);
    for (NaiveSequence& s : naive) {
      naive_gaps.push_back(to_seconds(now - s.last).count());
      s.last = now;
      ++s.context;
      if (--s.left == 0) {
        expected.push_back(s.request);
      }
    }
    std::erase_if(naive, [](const NaiveSequence& s) { return s.left == 0; });
    std::int64_t context = 0;
    for (const NaiveSequence& s : naive) {
      context += s.context;
    }
    REQUIRE(finished == expected);
    REQUIRE(set.context() == context);
    REQUIRE(set.size() == std::ssize(naive));
  }
  const Summary got = gaps.summary();
  const Summary want = summarize(naive_gaps);
  CHECK(got.count == want.count);
  CHECK(got.mean == doctest::Approx(want.mean).epsilon(1e-12));
  CHECK(got.p50 == want.p50);
  CHECK(got.p99 == want.p99);
  CHECK(got.max == want.max);
}

TEST_CASE(
    "all proposals accepted: a step yields one token more than proposed, and a request keeps no more than it wants") {
  DecodeSet set(4, {2, {1.0}}, Seed{1}, 0);
  set.join({5, 7, 7, 0 * kMs});
  GapSamples gaps;
  std::vector<std::int32_t> finished;
  CHECK(set.step_tokens() == 3);
  CHECK(set.pages_to_begin() == 1);  // 7 -> 10 tokens in pages of 4
  CHECK(decode(set, 1 * kMs, gaps, finished) == 0);
  CHECK(set.context() == 10);
  CHECK(set.tokens_to_come(100) == 4);
  decode(set, 2 * kMs, gaps, finished);
  CHECK(set.step_tokens() == 3);  // one token to come: both proposals are verified in vain
  CHECK(set.pages_to_begin() == 0);
  CHECK(finished.empty());
  decode(set, 3 * kMs, gaps, finished);
  CHECK(finished == std::vector<std::int32_t>{5});
  CHECK(set.size() == 0);
  CHECK(set.context() == 0);
  CHECK(set.step_tokens() == 0);
  CHECK(set.rejected() == 2);
  CHECK(gaps.count() == 7);
  CHECK(gaps.summary().mean == doctest::Approx(3e-3 / 7));  // three gaps of 1 ms, four of 0
}

TEST_CASE("no proposal accepted: one token a step, and pages set aside in vain are given back") {
  DecodeSet set(1, {3, {0.0}}, Seed{1}, 0);
  set.join({1, 3, 10, 0 * kMs});
  GapSamples gaps;
  std::vector<std::int32_t> finished;
  CHECK(set.pages_to_begin() == 3);  // as many tokens as are wanted, of the four that are computed
  CHECK(decode(set, 1 * kMs, gaps, finished) == 2);
  CHECK(set.rejected() == 3);
  CHECK(set.pages_to_begin() == 2);
  CHECK(decode(set, 2 * kMs, gaps, finished) == 1);
  CHECK(decode(set, 3 * kMs, gaps, finished) == 0);
  CHECK(finished.size() == 1);
}

TEST_CASE("the tokens of a step average 1 + a + a^2") {
  DecodeSet set(1, {2, {0.8}}, Seed{7}, 0);
  set.join({0, 100'000, 1, 0 * kMs});
  GapSamples gaps;
  std::vector<std::int32_t> finished;
  std::int64_t steps = 0;
  while (finished.empty()) {
    decode(set, ++steps * kMs, gaps, finished);
  }
  // Deviation of one step's tokens is below 1, so that 41,000 steps give the mean to 0.005.
  CHECK(100'000.0 / static_cast<double>(steps) == doctest::Approx(1 + 0.8 + 0.64).epsilon(0.008));
}

// InferenceX's golden lengths of DeepSeek-V4-Pro: 1.79, 2.27 and 2.49 tokens with 1, 2 and 3 drafts, so that the second is
// accepted in 0.48 / 0.79 of the steps in which the first was, and the third in 0.22 / 0.48 of those.
TEST_CASE("acceptance by position: 1 + a + a b + a b c tokens a step, the last for all later positions") {
  for (const auto& [drafts, tokens] : {std::pair{1, 1.79}, {2, 2.27}, {3, 2.49}}) {
    DecodeSet set(1, {drafts, {0.79, 0.48 / 0.79, 0.22 / 0.48}}, Seed{3}, 0);
    set.join({0, 100'000, 1, 0 * kMs});
    GapSamples gaps;
    std::vector<std::int32_t> finished;
    std::int64_t steps = 0;
    while (set.size() > 0) {
      decode(set, ++steps * kMs, gaps, finished);
    }
    // The deviation of a step's tokens is below 1.2: 40,000 steps give the mean to 0.006.
    CHECK(100'000.0 / static_cast<double>(steps) == doctest::Approx(tokens).epsilon(0.01));
  }
  const SpeculativeOptions options{3, {0.9, 0.5}};
  CHECK(options.acceptance_at(0) == 0.9);
  CHECK(options.acceptance_at(2) == 0.5);
}

TEST_CASE("a run with speculation: fewer steps, more tokens in each, and every request its tokens") {
  ServingOptions options = test::one_rank(100, false);
  test::sglang(options).reserve_full = false;
  options.speculative = {1, {1.0}};
  test::FixedPricer pricer(10_ms, true);
  const RunResult run = simulate(test::trace_of({{0, 20, 6}, {0, 20, 4}}), options, pricer, {});
  // Prompts, then 2 + 2 tokens, 2 + 2, of which one is not wanted, and 2 for the last one of A.
  REQUIRE(pricer.batches.size() == 4);
  CHECK(pricer.batches[1][0].decode_tokens == 4);
  CHECK(pricer.batches[1][0].sampled == 4);
  CHECK(pricer.batches[2][0].decode_tokens == 4);
  CHECK(pricer.batches[3][0].decode_tokens == 2);
  CHECK(run.requests[0].finished == 40 * kMs);
  CHECK(run.requests[1].finished == 30 * kMs);
}

}  // namespace epsim
