// vLLM V1's loop. VllmStep i runs from i to i + 1 ms.
#include <doctest/doctest.h>

#include <vector>

#include "sim/scheduler/engines.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

using test::kMs;
using test::records_of;

ServingOptions vllm(std::int64_t budget, std::int64_t blocks, int block_tokens) {
  ServingOptions out = test::one_rank(budget);
  out.engine = "vllm_v1";
  out.knobs = VllmKnobs{};
  out.kv_blocks = blocks;
  out.kv_block_tokens = block_tokens;
  return out;
}

struct VllmStep {
  std::int64_t prefill, decode, used;
};

void check_steps(Scheduler& rank, std::int64_t& at, const std::vector<VllmStep>& steps, GapSamples& gaps) {
  for (const VllmStep& want : steps) {
    CAPTURE(at);
    const RankBatch batch = rank.begin_step(at * kMs);
    CHECK(batch.prefill_tokens == want.prefill);
    CHECK(batch.decode_tokens == want.decode);
    CHECK(rank.kv().used() == want.used);
    rank.end_step();
    rank.hand_out(++at * kMs, gaps);
  }
}

}  // namespace

TEST_CASE("one budget: decodes first, then the prompt under way, then new ones") {
  auto records = records_of({{0, 6, 3}, {0, 12, 2}, {0, 5, 1}});
  const auto rank = make_scheduler(vllm(10, 100, 4), {records});
  for (int i = 0; i < 3; ++i) {
    rank->enqueue(i);
  }
  GapSamples gaps;
  std::int64_t at = 0;
  check_steps(*rank, at,
              {{10, 0, 2 + 1},         // A whole, 4 of B
               {8 + 1, 1, 2 + 3 + 1},  // A's decode; B's other 8; 1 of C
               {4, 2, 2 + 4 + 2}},     // A ends (8 cached), B's 13th token begins a page; C's other 4
              gaps);
  CHECK_FALSE(rank->has_work());
  CHECK(records[0].finished == 3 * kMs);
  CHECK(records[1].first_token == 2 * kMs);
  CHECK(records[2].first_token == 3 * kMs);
}

// v1/core/sched/scheduler.py: the threshold cuts a prompt before chunked prefill is asked about, which is about the budget.
TEST_CASE("without chunked prefill the budget does not cut a prompt, and the threshold still does") {
  auto records = records_of({{0, 50, 1}, {0, 80, 1}});
  ServingOptions options = vllm(100, 1000, 1);
  std::any_cast<VllmKnobs&>(options.knobs).chunked_prefill = false;
  GapSamples gaps;
  std::int64_t at = 0;
  const auto whole = make_scheduler(options, {records});
  whole->enqueue(0);
  whole->enqueue(1);
  check_steps(*whole, at, {{50, 0, 50}, {80, 0, 80}}, gaps);  // 80 do not fit beside 50
  records = records_of({{0, 50, 1}});
  std::any_cast<VllmKnobs&>(options.knobs).long_prefill_token_threshold = 20;
  const auto cut = make_scheduler(options, {records});
  cut->enqueue(0);
  at = 0;
  check_steps(*cut, at, {{20, 0, 20}, {20, 0, 40}, {10, 0, 50}}, gaps);
  CHECK_FALSE(cut->has_work());
}

TEST_CASE("the latest request is preempted when blocks run out, goes to the head, and computes all again") {
  // 6 blocks of 4 tokens. A and B (8 in, 9 out): two blocks each, then three; a fourth each does not fit.
  auto records = records_of({{0, 8, 9}, {0, 8, 9}, {0, 4, 1}});
  const auto rank = make_scheduler(vllm(100, 6, 4), {records});
  rank->enqueue(0);
  rank->enqueue(1);
  GapSamples gaps;
  std::int64_t at = 0;
  check_steps(*rank, at, {{16, 0, 4}, {0, 2, 6}, {0, 2, 6}, {0, 2, 6}, {0, 2, 6}}, gaps);
  rank->enqueue(2);
  // B is preempted; C would fit the free block, but nothing new enters in such a step, and then B stands before it.
  check_steps(*rank, at, {{0, 1, 4}, {0, 1, 4}, {0, 1, 4}, {0, 1, 4}}, gaps);
  CHECK(records[0].finished == 9 * kMs);
  CHECK(records.extras(1).retractions == 1);
  check_steps(*rank, at, {{13 + 4, 0, 4 + 1}, {0, 1, 4}, {0, 1, 4}, {0, 1, 4}}, gaps);  // B's input and its 5 tokens; C
  CHECK_FALSE(rank->has_work());
  CHECK(records[1].finished == 13 * kMs);
  CHECK(rank->counts().recomputed_tokens == 12);
  CHECK(gaps.count() == 8 + 8);
}

TEST_CASE("a preempted request finds in the prefix cache what nobody has taken of its memory") {
  // 6 blocks of 16 tokens. A and B (32 in, 33 out): two blocks each, then three, full after 16 decodes; a fourth each does not fit.
  for (const bool cached : {true, false}) {
    ServingOptions options = vllm(100, 6, 16);
    options.prefix_caching = cached;
    auto records = records_of({{0, 32, 33}, {0, 32, 33}});
    const auto rank = make_scheduler(options, {records});
    rank->enqueue(0);
    rank->enqueue(1);
    GapSamples gaps;
    std::int64_t at = 0;
    check_steps(*rank, at, {{64, 0, 4}}, gaps);
    check_steps(*rank, at, std::vector<VllmStep>(16, {0, 2, 6}), gaps);
    // A takes the last of the three blocks that B leaves, and B waits until it can have four.
    check_steps(*rank, at, std::vector<VllmStep>(16, {0, 1, 4}), gaps);
    CHECK(records.extras(1).retractions == 1);
    // B has 32 tokens of input and 17 of its answer to begin with: 32 of them are in the two blocks that are left.
    check_steps(*rank, at, {{cached ? 17 : 49, 0, 4}}, gaps);
    check_steps(*rank, at, std::vector<VllmStep>(15, {0, 1, 4}), gaps);
    CHECK_FALSE(rank->has_work());
    CHECK(rank->counts().recomputed_tokens == (cached ? 16 : 48));
    CHECK(rank->counts().hit_tokens == 0);  // of other requests' prompts
    CHECK(rank->kv().used() == 0);
  }
}

TEST_CASE("what a request holds beside its tokens is preempted and taken again with it") {
  // 60 blocks of a token, of which each request takes 15 whatever its length. A and B: 14 in, 8 out.
  ServingOptions options = vllm(100, 60, 1);
  options.kv_blocks_per_request = 15;
  auto records = records_of({{0, 14, 8}, {0, 14, 8}});
  const auto rank = make_scheduler(options, {records});
  rank->enqueue(0);
  rank->enqueue(1);
  GapSamples gaps;
  std::int64_t at = 0;
  check_steps(*rank, at, {{28, 0, 58}, {0, 2, 60}}, gaps);
  // Two more do not fit: B gives back 30 and, with its 2 tokens, needs 31 of the 29 and less that A leaves.
  check_steps(*rank, at, {{0, 1, 31}, {0, 1, 32}, {0, 1, 33}, {0, 1, 34}, {0, 1, 35}, {0, 1, 36}}, gaps);
  CHECK(records.extras(1).retractions == 1);
  check_steps(*rank, at, {{16, 0, 31}, {0, 1, 32}, {0, 1, 33}, {0, 1, 34}, {0, 1, 35}, {0, 1, 36}}, gaps);
  CHECK_FALSE(rank->has_work());
  CHECK(rank->kv().used() == 0);
}

TEST_CASE("max_num_seqs, chunks of limited length, and prompts that may not be cut") {
  auto records = records_of({{0, 20, 1}, {0, 20, 1}, {0, 20, 1}});
  ServingOptions limited = vllm(100, 100, 4);
  limited.max_running_requests = 2;
  test::vllm(limited).long_prefill_token_threshold = 12;
  const auto rank = make_scheduler(limited, {records});
  ServingOptions whole = vllm(30, 100, 4);
  test::vllm(whole).chunked_prefill = false;
  auto records_whole = records;
  const auto uncut = make_scheduler(whole, {records_whole});
  for (int i = 0; i < 3; ++i) {
    rank->enqueue(i);
    uncut->enqueue(i);
  }
  GapSamples gaps;
  std::int64_t at = 0;
  check_steps(*rank, at, {{24, 0, 6}, {16, 0, 10}, {12, 0, 3}, {8, 0, 5}}, gaps);
  at = 0;
  check_steps(*uncut, at, {{20, 0, 5}, {20, 0, 5}, {20, 0, 5}}, gaps);
}

TEST_CASE("a prompt enters with its first chunk, or when all of it fits") {
  // 5 blocks of 4: A (8 in, 4 out) holds 2; B's first chunk of 8 fits, its 16 tokens do not before A has ended.
  for (const bool all : {false, true}) {
    auto records = records_of({{0, 8, 4}, {0, 16, 1}});
    ServingOptions options = vllm(100, 5, 4);
    test::vllm(options).long_prefill_token_threshold = 8;
    test::vllm(options).reserve_full_isl = all;
    const auto rank = make_scheduler(options, {records});
    rank->enqueue(0);
    rank->enqueue(1);
    CHECK(rank->begin_step(Ticks{}).prefill_tokens == (all ? 8 : 16));
    CHECK(rank->head_lacks_blocks() == all);
  }
}

TEST_CASE("a prompt that finds no blocks gives way itself when it is the latest") {
  // 5 blocks of 4. A (8 in, 10 out) holds 2; B (16 in) gets its first chunk of 8, then its second does not fit.
  auto records = records_of({{0, 8, 10}, {0, 16, 1}});
  ServingOptions options = vllm(100, 5, 4);
  test::vllm(options).long_prefill_token_threshold = 8;
  const auto rank = make_scheduler(options, {records});
  rank->enqueue(0);
  rank->enqueue(1);
  GapSamples gaps;
  std::int64_t at = 0;
  check_steps(*rank, at, {{16, 0, 4}, {0, 1, 3}}, gaps);  // A's decode takes the last block; B steps back
  CHECK(records[1].state == RequestState::kWaiting);
  CHECK(records.extras(1).retractions == 1);
  while (rank->has_work()) {
    rank->begin_step(at * kMs);
    rank->end_step();
    rank->hand_out(++at * kMs, gaps);
  }
  CHECK(records[1].state == RequestState::kCompleted);
  CHECK(rank->counts().recomputed_tokens >= 8);
}

// v1/core/kv_cache_manager.py, allocate_slots: full blocks are cached as they are scheduled.
TEST_CASE("vLLM: of two prompts that begin alike, the second finds in the same step what the first computes") {
  auto records = records_of({{0, 8, 1}, {0, 10, 1}});
  const PrefixBlocks prefixes{4, 2, {0, 2, 4}, {0, 1, 0, 1}};
  const auto rank = make_scheduler(vllm(100, 100, 4), {records, &prefixes});
  rank->enqueue(0);
  rank->enqueue(1);
  GapSamples gaps;
  std::int64_t at = 0;
  check_steps(*rank, at, {{8 + 2, 0, 3}}, gaps);  // pages: two shared, one of the second's own
  CHECK(rank->counts().hit_tokens == 8);
}

}  // namespace epsim
