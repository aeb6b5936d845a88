// SGLang's use of KV memory: admission on an estimate, retraction, prefix cache. Steps of 1 ms; step i runs from i to
// i + 1 ms.
#include <doctest/doctest.h>

#include <vector>

#include "sim/scheduler/sglang.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

using test::kMs;
using test::records_of;

ServingOptions on_estimate(std::int64_t blocks, double ratio, bool mixed = false) {
  ServingOptions out = test::one_rank(100, mixed);
  out.kv_blocks = blocks;
  SglangKnobs& knobs = test::sglang(out);
  knobs.reserve_full = false;
  knobs.ratio.init = knobs.ratio.min = ratio;
  knobs.ratio.decay = 0;
  return out;
}

// Prompt and decode tokens of a step, and the KV blocks in use while it runs.
struct Step {
  std::int64_t prefill, decode, used;
};

class Runner {
 public:
  explicit Runner(Scheduler& rank) : rank_(rank) {}
  const RankBatch& check(const Step& want) {
    CAPTURE(step_);
    batch_ = rank_.begin_step(step_ * kMs);
    CHECK(batch_.prefill_tokens == want.prefill);
    CHECK(batch_.decode_tokens == want.decode);
    CHECK(rank_.kv().used() == want.used);
    rank_.end_step();
    rank_.hand_out(++step_ * kMs, gaps);
    return batch_;
  }
  GapSamples gaps;

 private:
  Scheduler& rank_;
  RankBatch batch_;
  std::int64_t step_ = 0;
};

}  // namespace

TEST_CASE("what a request holds beside its tokens is taken when it enters and given back when it ends") {
  // 60 tokens of memory, of which each request takes 15 whatever its length: A (10 in, 3 out) and B need 28 each.
  ServingOptions options = on_estimate(60, 1.0);
  options.kv_blocks_per_request = 15;
  auto records = records_of({{0, 10, 3}, {0, 10, 3}, {0, 10, 3}});
  SglangScheduler rank(options, {records});
  Runner run(rank);
  for (std::int32_t r = 0; r < 3; ++r) {
    rank.enqueue(r);
  }
  // A leaves 35 and promises 3: B's 28 fit, C's do not fit the 10 - 6 behind it.
  run.check({20, 0, 50});
  run.check({0, 2, 52});
  run.check({0, 2, 54});  // A and B end, and all is free
  run.check({10, 0, 25});
  run.check({0, 1, 26});
  run.check({0, 1, 27});
  CHECK(rank.kv().used() == 0);
  CHECK_FALSE(rank.has_work());
  CHECK(records.all_extras().empty());  // no retraction
}

TEST_CASE("decodes that run out of memory retract the request with the fewest tokens, which starts again") {
  // 30 tokens of memory. A and B (10 in, 8 out) both enter, since the estimate expects no further output (ratio 0).
  auto records = records_of({{0, 10, 8}, {0, 10, 8}});
  SglangScheduler rank(on_estimate(30, 0.0), {records});
  Runner run(rank);
  rank.enqueue(0);
  run.check({10, 0, 10});  // A
  rank.enqueue(1);
  run.check({10, 0, 20});  // B: 10 + 8 < 20 left
  for (std::int64_t i = 1; i <= 5; ++i) {
    run.check({0, 2, 20 + 2 * i});
  }
  // Two more do not fit. A and B have 6 tokens each; of equals the later goes: B. A goes on alone, from 15 cached
  // tokens to 16. The new ratio: A made 6 of 8, and 20 more steps are looked ahead: (6 + 20) / 8, at most 1.
  run.check({0, 1, 16});
  CHECK(records[1].state == RequestState::kWaiting);
  CHECK(records.extras(1).retractions == 1);
  CHECK(rank.new_token_ratio() == 1.0);
  run.check({0, 1, 17});  // B needs 16 + 8 of the 14 that are left; A ends
  CHECK(records[0].finished == 9 * kMs);
  run.check({16, 0, 16});  // B's input and the 6 tokens that it had: its 7th
  run.check({0, 1, 17});
  CHECK_FALSE(rank.has_work());
  CHECK(records[1].first_token == 2 * kMs);
  CHECK(records[1].finished == 11 * kMs);
  const Scheduler::Counts& counts = rank.counts();
  CHECK(counts.retractions == 1);
  CHECK(counts.recomputed_tokens == 15);  // 10 of input and 5 of the 6 tokens were cached
  CHECK(counts.prompt_ends == 3);
  CHECK(counts.dropped_prompt_tokens == 10);
  CHECK(counts.resumed_tokens == 6);
  CHECK(run.gaps.count() == 2 * 7);
  CHECK(run.gaps.summary().max == doctest::Approx(3e-3));  // B from 7 to 10 ms
  CHECK(rank.kv().used() == 0);
}

TEST_CASE("a retraction goes on until 20 tokens of each fit, since v0.5.2 until the next step does") {
  // Three requests of 5 tokens fill 30 tokens of memory when each has made its sixth.
  for (const bool next_step : {false, true}) {
    auto records = records_of({{0, 5, 20}, {0, 5, 20}, {0, 5, 20}});
    ServingOptions options = on_estimate(30, 0.0);
    test::sglang(options).ratio.clip_tokens = 1;
    test::sglang(options).retracts_for_next_step = next_step;
    SglangScheduler rank(options, {records});
    Runner run(rank);
    for (int i = 0; i < 3; ++i) {
      rank.enqueue(i);
    }
    run.check({15, 0, 15});
    for (int made = 1; made <= 5; ++made) {
      run.check({0, 3, 15 + 3 * made});
    }
    run.check({0, next_step ? 2 : 1, next_step ? 22 : 11});  // the last gives up 10 tokens; 20 of both would be 40
    CHECK(rank.counts().retractions == (next_step ? 1 : 2));
  }
}

TEST_CASE("with speculation the back of the batch is retracted, whoever has made least") {
  // Of equals the later by number goes: request 1, which joined first. The back of the batch is request 0.
  for (const int drafts : {0, 1}) {
    auto records = records_of({{0, 4, 30}, {0, 4, 30}});
    ServingOptions options = on_estimate(30, 0.0);
    options.speculative.draft_tokens = drafts;
    options.speculative.acceptance = {0.0};
    test::sglang(options).ratio.clip_tokens = 1;
    SglangScheduler rank(options, {records});
    GapSamples gaps;
    rank.enqueue(1);
    for (std::int64_t at = 0; rank.counts().retractions == 0; ++at) {
      if (at == 1) {
        rank.enqueue(0);
      }
      rank.begin_step(at * kMs);
      rank.end_step();
      rank.hand_out((at + 1) * kMs, gaps);
    }
    CHECK(records.extras(drafts == 0 ? 1 : 0).retractions == 1);
  }
}

TEST_CASE("a prefill instance keeps memory for one token of an answer") {
  auto records = records_of({{0, 9, 100}, {0, 9, 100}});
  ServingOptions options = on_estimate(21, 1.0);
  for (const InstanceRole role : {InstanceRole::kWhole, InstanceRole::kPrefill}) {
    options.role = role;
    options.kv_blocks = role == InstanceRole::kPrefill ? 21 : 120;
    auto own = records;
    SglangScheduler rank(options, {own});
    rank.enqueue(0);
    rank.enqueue(1);
    // 9 and 1 promised of 21 leave 11 for B's 9 + 1; 9 and 100 of 120 leave 11 for its 109.
    CHECK(rank.begin_step(Ticks{}).prefill_tokens == (role == InstanceRole::kPrefill ? 18 : 9));
  }
}

TEST_CASE("a request may be retracted while it decodes again") {
  // All three enter and fill the memory at 20 tokens each: the last goes. The first two fill it at 30 each: the second
  // goes. When the first has ended, both come back with 21 and 31 tokens and fill it once more: the one with fewer goes
  // a second time.
  auto records = records_of({{0, 10, 40}, {0, 10, 40}, {0, 10, 40}});
  ServingOptions options = on_estimate(60, 0.0);
  test::sglang(options).ratio.clip_tokens = 1;
  test::sglang(options).ratio.retract_steps = 0;
  SglangScheduler rank(options, {records});
  for (int i = 0; i < 3; ++i) {
    rank.enqueue(i);
  }
  GapSamples gaps;
  for (std::int64_t at = 0; rank.has_work(); ++at) {
    rank.begin_step(at * kMs);
    rank.end_step();
    rank.hand_out((at + 1) * kMs, gaps);
  }
  CHECK(records.extras(0).retractions == 0);
  CHECK(records.extras(1).retractions == 1);
  CHECK(records.extras(2).retractions >= 2);
  CHECK(gaps.count() == 3 * 39);
  CHECK(rank.kv().used() == 0);
}

TEST_CASE("a retracted request makes again the tokens that were not handed out") {
  // As above, but the tokens of a step are handed out while the next one runs, so that a request which is retracted when a
  // step begins loses the one that it has just made. In the end each has its 40 tokens, with 39 gaps.
  auto records = records_of({{0, 10, 40}, {0, 10, 40}, {0, 10, 40}});
  ServingOptions options = on_estimate(60, 0.0);
  test::sglang(options).ratio.clip_tokens = 1;
  test::sglang(options).ratio.retract_steps = 0;
  SglangScheduler rank(options, {records});
  for (int i = 0; i < 3; ++i) {
    rank.enqueue(i);
  }
  GapSamples gaps;
  for (std::int64_t at = 0; rank.has_work(); ++at) {
    rank.begin_step(at * kMs);
    rank.hand_out(at * kMs + kMs / 2, gaps);
    rank.end_step();
  }
  // Every retraction loses a token, and each of the three ends is known one step late.
  CHECK(rank.counts().retractions > 0);
  CHECK(rank.counts().overrun_tokens == rank.counts().retractions + 3);
  CHECK(gaps.count() == 3 * 39);
  CHECK(rank.kv().used() == 0);
}

TEST_CASE("the estimate: a request enters when it fits beside what the running ones are expected to make") {
  // 100 tokens. A (20 in, 40 out) runs: 20 cached, 39 to come. B needs 30 + 10 = 40 of 80 - 39 * ratio.
  for (const auto& [estimate, enters] : {std::pair{1.0, true}, std::pair{1.03, false}}) {
    const double ratio = estimate;
    CAPTURE(ratio);  // 80 - 39 = 41 > 40; 80 - 40.17 = 39.83 < 40
    auto records = records_of({{0, 20, 40}, {0, 30, 10}});
    SglangScheduler rank(on_estimate(100, ratio), {records});
    Runner run(rank);
    rank.enqueue(0);
    run.check({20, 0, 20});
    rank.enqueue(1);
    enters ? run.check({30, 0, 50}) : run.check({0, 1, 21});
  }
}

TEST_CASE("requests of one step promise all of their output, and a full rank waits for a request to leave") {
  // 60 tokens: A (10 + 3), B (10 + 30): 10 + 30 < 60 - 10 - 3; C (1 + 9) of 60 - 20 - 3 - 30 = 7 does not fit.
  auto records = records_of({{0, 10, 3}, {0, 10, 30}, {0, 1, 9}});
  SglangScheduler rank(on_estimate(60, 0.0), {records});
  Runner run(rank);
  for (int i = 0; i < 3; ++i) {
    rank.enqueue(i);
  }
  run.check({20, 0, 20});
  CHECK(rank.head_lacks_blocks());
  run.check({0, 2, 22});  // C would fit by now, but the rank looks only after someone has left
  run.check({0, 2, 24});  // A ends
  run.check({1, 0, 13});
}

TEST_CASE("the ratio decays with every step of decodes alone, and an idle instance starts afresh") {
  for (const bool mixed : {false, true}) {
    CAPTURE(mixed);
    auto records = records_of({{0, 10, 4}});
    ServingOptions options = on_estimate(100, 0.5);
    test::sglang(options).mixed_chunk = mixed;
    test::sglang(options).ratio.min = 0.35;
    test::sglang(options).ratio.decay = 0.1;
    SglangScheduler rank(options, {records});
    Runner run(rank);
    rank.enqueue(0);
    run.check({10, 0, 10});
    CHECK(rank.new_token_ratio() == 0.5);
    run.check({0, 1, 11});
    CHECK(rank.new_token_ratio() == doctest::Approx(0.4));
    run.check({0, 1, 12});
    CHECK(rank.new_token_ratio() == doctest::Approx(0.35));  // the floor
    run.check({0, 1, 13});
    rank.on_idle();
    CHECK(rank.new_token_ratio() == 0.5);
  }
}

TEST_CASE("with mixed chunks, a step in which a prompt enters leaves the ratio") {
  auto records = records_of({{0, 10, 6}, {0, 10, 1}});
  ServingOptions options = on_estimate(100, 0.5);
  test::sglang(options).mixed_chunk = true;
  test::sglang(options).ratio.min = 0.1;
  test::sglang(options).ratio.decay = 0.1;
  SglangScheduler rank(options, {records});
  Runner run(rank);
  rank.enqueue(0);
  run.check({10, 0, 10});
  run.check({0, 1, 11});
  CHECK(rank.new_token_ratio() == doctest::Approx(0.4));
  rank.enqueue(1);
  run.check({10, 1, 22});
  CHECK(rank.new_token_ratio() == doctest::Approx(0.4));
}

TEST_CASE("pages: a decode begins one when its tokens fill the last, chunks are cut to whole pages") {
  auto records = records_of({{0, 7, 4}, {0, 30, 1}});
  ServingOptions options = on_estimate(100, 0.0);
  options.kv_block_tokens = 4;
  options.token_budget = 18;
  SglangScheduler rank(options, {records});
  Runner run(rank);
  rank.enqueue(0);
  rank.enqueue(1);
  run.check({7 + 8, 0, 2 + 2});  // A counts 8 of 18; B gets 10 / 4 * 4
  run.check({18, 0, 2 + 7});     // B's 26 tokens lie in 7 pages
  run.check({4, 0, 2 + 8});      // B ends
  run.check({0, 1, 2});          // A's 8th token
  run.check({0, 1, 3});          // the 9th begins a page
  run.check({0, 1, 3});
  CHECK(rank.kv().used() == 0);
}

namespace {

// Requests of 10 tokens in two prefix blocks of 4 and two tokens more.
PrefixBlocks blocks_of_4(const std::vector<std::vector<std::int32_t>>& paths) {
  PrefixBlocks out;
  out.block_tokens = 4;
  out.start.push_back(0);
  for (const auto& path : paths) {
    out.ids.insert(out.ids.end(), path.begin(), path.end());
    out.start.push_back(std::ssize(out.ids));
  }
  out.distinct = 100;
  return out;
}

}  // namespace

TEST_CASE("a prompt is computed from where the prefix cache ends; finished requests stay evictable") {
  auto records = records_of({{0, 10, 1}, {0, 10, 1}, {0, 8, 1}, {0, 10, 1}});
  const PrefixBlocks prefixes = blocks_of_4({{0, 1}, {0, 1}, {0, 1}, {0, 2}});
  SglangScheduler rank(on_estimate(20, 0.0), {records, &prefixes});
  Runner run(rank);
  rank.enqueue(0);
  run.check({10, 0, 10});
  CHECK(rank.kv().used() == 0);
  CHECK(rank.kv().evictable() == 8);
  rank.enqueue(1);
  const RankBatch second = run.check({2, 0, 10});  // 8 lent, 2 of its own
  CHECK(second.prefill_context == 8);
  CHECK(second.prefill_pairs == 2 * 8 + 3);
  rank.enqueue(2);
  run.check({4, 0, 8});  // all 8 are cached, but one token must be computed: its block is
  CHECK(rank.cached_tokens(3) == 4);
  rank.enqueue(3);
  run.check({6, 0, 10});  // block 0 lent, 6 computed
  CHECK(rank.kv().evictable() == 12);
  CHECK(rank.counts().lookup_tokens == 38);
  CHECK(rank.counts().hit_tokens == 8 + 4 + 4);
  CHECK(records.extras(1).cached_tokens == 8);
}

TEST_CASE("an answer is found by the turn that follows it, but for its last token") {
  // The first turn leaves 6 + 7 - 1 = 12 tokens in three blocks of 4; the second asks 13 + 4 = 17.
  auto records = records_of({{0, 6, 7}, {0, 17, 1}});
  const PrefixBlocks prefixes = blocks_of_4({{0, 1, 2}, {0, 1, 2, 3}});
  SglangScheduler rank(on_estimate(40, 0.0), {records, &prefixes});
  Runner run(rank);
  rank.enqueue(0);
  run.check({6, 0, 6});
  for (int made = 1; made < 7; ++made) {
    CHECK(rank.cached_tokens(1) == 4);  // while it is being written, what the prompt filled
    run.check({0, 1, 6 + made});
  }
  CHECK(rank.kv().used() == 0);
  CHECK(rank.kv().evictable() == 12);
  CHECK(rank.cached_tokens(1) == 12);
  rank.enqueue(1);
  run.check({5, 0, 17});
  CHECK(rank.kv().evictable() == 16);
}

TEST_CASE("the prefix cache gives way to running requests, and can be turned off") {
  auto records = records_of({{0, 10, 1}, {0, 15, 1}, {0, 10, 1}});
  const PrefixBlocks prefixes = blocks_of_4({{0, 1}, {}, {0, 1}});
  SglangScheduler rank(on_estimate(20, 0.0), {records, &prefixes});
  Runner run(rank);
  rank.enqueue(0);
  run.check({10, 0, 10});
  rank.enqueue(1);
  run.check({15, 0, 15});  // 12 are free: block 1 goes
  CHECK(rank.kv().evicted_prefix_blocks() == 1);
  rank.enqueue(2);
  run.check({6, 0, 10});
  ServingOptions off = on_estimate(20, 0.0);
  off.prefix_caching = false;
  SglangScheduler without(off, {records, &prefixes});
  Runner plain(without);
  for (int i = 0; i < 2; ++i) {
    without.enqueue(0);
    plain.check({10, 0, 10});
    CHECK(without.kv().evictable() == 0);
  }
}

TEST_CASE("a queue at the limit of running requests does not lack memory") {
  auto records = records_of({{0, 10, 5}, {0, 10, 5}});
  ServingOptions options = on_estimate(100, 0.0);
  options.max_running_requests = 1;
  SglangScheduler rank(options, {records});
  Runner run(rank);
  rank.enqueue(0);
  rank.enqueue(1);
  run.check({10, 0, 10});
  CHECK_FALSE(rank.head_lacks_blocks());
  for (int step = 1; step < 4; ++step) {
    run.check({0, 1, 10 + step});
    CHECK_FALSE(rank.head_lacks_blocks());
  }
}

TEST_CASE("lpm takes the longest cached prefix first") {
  auto records = records_of({{0, 10, 1}, {0, 10, 1}, {0, 10, 1}});
  const PrefixBlocks prefixes = blocks_of_4({{0, 1}, {5, 6}, {0, 1}});
  for (const bool longest_first : {false, true}) {
    ServingOptions options = on_estimate(100, 0.0);
    test::sglang(options).longest_prefix_first = longest_first;
    options.max_running_requests = 1;
    SglangScheduler rank(options, {records, &prefixes});
    Runner run(rank);
    rank.enqueue(0);
    run.check({10, 0, 10});
    rank.enqueue(1);
    rank.enqueue(2);
    run.check({longest_first ? 2 : 10, 0, 10});
    run.check({longest_first ? 10 : 2, 0, 10});
    CHECK_FALSE(rank.has_work());
  }
}

}  // namespace epsim
