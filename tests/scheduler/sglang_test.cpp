#include "sim/scheduler/sglang.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "sim/core/check.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

using test::kMs;
using test::one_rank;
using test::records_of;

// What a batch is expected to hold, in the order of RankBatch.
struct Batch {
  std::int64_t prefill, decode;
  double pairs, prefill_context, decode_context;
  std::int64_t sampled;
};

void check_batch(const RankBatch& got, const Batch& want) {
  CHECK(got.prefill_tokens == want.prefill);
  CHECK(got.decode_tokens == want.decode);
  CHECK(got.prefill_pairs == want.pairs);
  CHECK(got.prefill_context == want.prefill_context);
  CHECK(got.decode_context == want.decode_context);
  CHECK(got.sampled == want.sampled);
}

// Runs steps of 1 ms each, from 0, and checks the batches; returns the gaps between tokens.
GapSamples check_steps(Scheduler& rank, const std::vector<Batch>& steps) {
  GapSamples gaps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CAPTURE(i);
    check_batch(rank.begin_step(static_cast<std::int64_t>(i) * kMs), steps[i]);
    rank.end_step();
    rank.hand_out(static_cast<std::int64_t>(i + 1) * kMs, gaps);
  }
  return gaps;
}

}  // namespace

// A: 25 in, 2 out. B: 7 in, 1 out. C: 6 in, 3 out. Budget 10. A chunk of n tokens behind c cached ones has
// n * c + n * (n + 1) / 2 query-key pairs.
TEST_CASE("mixed: prompts are cut at the budget that decodes leave, and finish in order") {
  auto records = records_of({{0, 25, 2}, {0, 7, 1}, {0, 6, 3}});
  SglangScheduler rank(one_rank(10), {records});
  for (int i = 0; i < 3; ++i) {
    rank.enqueue(i);
  }
  CHECK(rank.load().input_tokens + rank.load().output_tokens == 27 + 8 + 9);
  GapSamples gaps = check_steps(rank, {{10, 0, 55, 0, 0, 0},              // A 0..9
                                       {10, 0, 100 + 55, 10, 0, 0},       // A 10..19
                                       {10, 0, 100 + 15 + 15, 20, 0, 1},  // A 20..24 (first token), B 0..4
                                       {8, 1, 10 + 3 + 21, 5, 25, 3},     // A decodes; budget 9: B 5..6, C 0..5
                                       {0, 1, 0, 0, 6, 1},                // C decodes
                                       {0, 1, 0, 0, 7, 1},                // C decodes its last
                                       {0, 0, 0, 0, 0, 0}});              // nothing left: idle
  CHECK_FALSE(rank.has_work());
  CHECK(rank.load().input_tokens + rank.load().output_tokens == 0);
  CHECK(rank.kv().used() == 0);
  CHECK(records[0].admitted == 0 * kMs);
  CHECK(records[0].first_token == 3 * kMs);
  CHECK(records[0].finished == 4 * kMs);
  CHECK(records[1].admitted == 2 * kMs);
  CHECK(records[1].first_token == 4 * kMs);
  CHECK(records[1].finished == 4 * kMs);  // its only token comes with the prefill
  CHECK(records[2].admitted == 3 * kMs);
  CHECK(records[2].finished == 6 * kMs);
  CHECK(gaps.count() == 3);
  CHECK(gaps.summary().max == doctest::Approx(1e-3));
}

TEST_CASE("not mixed: decodes wait while there is a prompt to work on") {
  auto records = records_of({{0, 25, 2}, {0, 7, 1}, {0, 6, 3}});
  SglangScheduler rank(one_rank(10, false), {records});
  for (int i = 0; i < 3; ++i) {
    rank.enqueue(i);
  }
  GapSamples gaps = check_steps(rank, {{10, 0, 55, 0, 0, 0},
                                       {10, 0, 155, 10, 0, 0},
                                       {10, 0, 130, 20, 0, 1},
                                       {8, 0, 10 + 3 + 21, 5, 0, 2},  // budget 10: B 5..6, C 0..5; A waits
                                       {0, 2, 0, 0, 25 + 6, 2},       // A ends
                                       {0, 1, 0, 0, 7, 1}});          // C ends
  CHECK_FALSE(rank.has_work());
  CHECK(records[0].finished == 5 * kMs);
  // A: 3 -> 5 ms. C: 4 -> 5 -> 6 ms.
  CHECK(gaps.count() == 3);
  CHECK(gaps.summary().max == doctest::Approx(2e-3));
  CHECK(gaps.summary().mean == doctest::Approx((2 + 1 + 1) / 3.0 * 1e-3));
}

TEST_CASE("the head of the queue waits for KV blocks, and everyone behind it waits with it") {
  // Blocks of 4 tokens, 10 of them. A: 5 + 3 = 8 tokens = 2 blocks; B: 30 + 3 = 33 = 9 blocks, which A leaves no room
  // for; C: 2 + 1 = 3 = 1 block, which would fit.
  auto records = records_of({{0, 5, 3}, {0, 30, 3}, {0, 2, 1}});
  ServingOptions options = one_rank(100);
  options.kv_blocks = 10;
  options.kv_block_tokens = 4;
  SglangScheduler rank(options, {records});
  GapSamples gaps;
  for (int i = 0; i < 3; ++i) {
    rank.enqueue(i);
  }
  const std::int64_t prefill[] = {5, 0, 0, 32};  // A; A decodes twice while B and C wait; then B and C together
  for (int step = 0; step < 4; ++step) {
    CAPTURE(step);
    CHECK(rank.begin_step(step * kMs).prefill_tokens == prefill[step]);
    CHECK(rank.head_lacks_blocks() == (step < 3));
    CHECK(rank.kv().used() == (step < 3 ? 2 : 10));
    rank.end_step();
    rank.hand_out((step + 1) * kMs, gaps);
  }
  CHECK(records[2].admitted == 3 * kMs);
  CHECK(records[2].state == RequestState::kCompleted);
  CHECK(rank.kv().used() == 9);
}

TEST_CASE("max_running_requests counts every admitted request that has not ended") {
  auto records = records_of({{0, 3, 2}, {0, 15, 1}, {0, 3, 1}});
  ServingOptions options = one_rank(10);
  options.max_running_requests = 2;
  SglangScheduler rank(options, {records});
  for (int i = 0; i < 3; ++i) {
    rank.enqueue(i);
  }
  check_steps(rank, {{10, 0, 6 + 28, 0, 0, 1},     // A whole, B 0..6; C would make three
                     {8, 1, 8 * 7 + 36, 7, 3, 2},  // budget 9: B 7..14; one token of it stays unused
                     {3, 0, 6, 0, 0, 1}});         // A and B are gone: C
  CHECK_FALSE(rank.has_work());
}

TEST_CASE("decodes that fill the budget leave none for prompts, which then wait their turn") {
  auto records = records_of({{0, 1, 3}, {0, 1, 4}, {0, 1, 1}});
  SglangScheduler rank(one_rank(2), {records});
  for (int i = 0; i < 3; ++i) {
    rank.enqueue(i);
  }
  check_steps(rank, {{2, 0, 1 + 1, 0, 0, 2},
                     {0, 2, 0, 0, 2, 2},
                     {0, 2, 0, 0, 4, 2},    // A ends
                     {1, 1, 1, 0, 3, 2}});  // budget 2 - 1
  CHECK_FALSE(rank.has_work());
}

TEST_CASE("an idle rank brings an empty batch") {
  auto records = records_of({{0, 1, 1}});
  SglangScheduler rank(one_rank(10), {records});
  check_steps(rank, {{0, 0, 0, 0, 0, 0}});
}

TEST_CASE("a rank that could make no progress is a broken invariant, not an endless loop") {
  auto records = records_of({{0, 9, 2}});
  ServingOptions options = one_rank(10);
  options.kv_blocks = 10;  // 9 + 2 = 11 tokens never fit
  SglangScheduler rank(options, {records});
  rank.enqueue(0);
  CHECK_THROWS_AS(rank.begin_step(Ticks{}), InvariantBroken);
}

// --prefill-decode-interval: "defer new prefill scheduling for the next N scheduler rounds", chunks too.
TEST_CASE("where all prompts are held, one under way waits and decodes go on") {
  auto records = test::records_of({{0, 4, 9}, {0, 20, 2}});
  ServingOptions options = test::one_rank(8, false);
  SglangScheduler rank(options, {records});
  GapSamples gaps;
  const auto step = [&](bool hold_all) {
    rank.begin_prompts(Ticks{}, hold_all, hold_all);
    const RankBatch batch = rank.begin_decodes(false);
    rank.end_step();
    rank.hand_out(Ticks{}, gaps);
    return std::pair(batch.prefill_tokens, batch.decode_tokens);
  };
  rank.enqueue(0);
  CHECK(step(false) == std::pair<std::int64_t, std::int64_t>(4, 0));
  rank.enqueue(1);
  CHECK(step(false) == std::pair<std::int64_t, std::int64_t>(8, 0));
  CHECK(step(true) == std::pair<std::int64_t, std::int64_t>(0, 1));
  CHECK(step(true) == std::pair<std::int64_t, std::int64_t>(0, 1));
  CHECK(step(false) == std::pair<std::int64_t, std::int64_t>(8, 0));
}

}  // namespace epsim
