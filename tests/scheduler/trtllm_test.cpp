// TensorRT-LLM's loop. Step i runs from i to i + 1 ms.
//   Source : tensorrt_llm/_torch/pyexecutor of v1.1 and v1.2, as in sim/scheduler/trtllm.cpp.
#include <doctest/doctest.h>

#include <vector>

#include "sim/scheduler/engines.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

using test::kMs;
using test::records_of;

ServingOptions trtllm(std::int64_t budget, std::int64_t blocks, int block_tokens, const TrtllmKnobs& knobs = {}) {
  ServingOptions out = test::one_rank(budget);
  out.engine = "trtllm_1_x";
  out.knobs = knobs;
  out.max_running_requests = 100;
  out.kv_blocks = blocks;
  out.kv_block_tokens = block_tokens;
  return out;
}

struct TrtllmStep {
  std::int64_t prefill, decode, used;
};

void check_trtllm_steps(Scheduler& rank, std::int64_t& at, const std::vector<TrtllmStep>& steps) {
  GapSamples gaps;
  for (const TrtllmStep& want : steps) {
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

// GuaranteedNoEvictPolicy: blocks for input and output at admission; the first request that finds too few ends it.
TEST_CASE("a request enters with blocks for input and output, is never evicted, and none passes it in the queue") {
  // 10 blocks of 4 tokens. A and B: 8 in, 9 out, 17 tokens, 5 blocks each. C: 4 in, 1 out, 2 blocks.
  auto records = records_of({{0, 8, 9}, {0, 8, 9}, {0, 8, 9}, {0, 4, 1}});
  const auto rank = make_scheduler(trtllm(100, 10, 4), {records});
  for (int i = 0; i < 4; ++i) {
    rank->enqueue(i);
  }
  std::int64_t at = 0;
  check_trtllm_steps(*rank, at, {{16, 0, 10}, {0, 2, 10}});
  CHECK(rank->head_lacks_blocks());
  check_trtllm_steps(*rank, at, std::vector<TrtllmStep>(7, {0, 2, 10}));
  CHECK(records[0].finished == 9 * kMs);  // one step for the prompt and the first token, eight for the others
  CHECK(records.extras(1).retractions == 0);
  check_trtllm_steps(*rank, at, {{8 + 4, 0, 5 + 2}});
  CHECK(rank->counts().retractions == 0);
}

// PyMicroBatchScheduler without a chunk config: the first prompt that exceeds max_num_tokens ends the batch.
TEST_CASE("without chunked prefill a prompt that does not fit beside the decodes and those before it waits, whole") {
  auto records = records_of({{0, 12, 3}, {0, 6, 3}, {0, 2, 3}});
  const auto rank = make_scheduler(trtllm(16, 100, 4), {records});
  for (int i = 0; i < 3; ++i) {
    rank->enqueue(i);
  }
  std::int64_t at = 0;
  // A's 12 leave 4: B's 6 wait, and C, which would fit, behind it. Then A decodes, and both fit the 15 that it leaves.
  check_trtllm_steps(*rank, at, {{12, 0, 4}, {6 + 2, 1, 4 + 3 + 2}, {0, 3, 9}});
  CHECK(records[1].admitted == 1 * kMs);
  CHECK(records[2].admitted == 1 * kMs);
  CHECK_FALSE(rank->head_lacks_blocks());
}

// FCFS chunks: what is left of the budget, cut to whole blocks.
TEST_CASE("with chunked prefill prompts are cut to whole blocks of what decodes leave") {
  auto records = records_of({{0, 5, 9}, {0, 30, 2}});
  const auto rank = make_scheduler(trtllm(16, 100, 4, {.chunked_prefill = true}), {records});
  rank->enqueue(0);
  rank->enqueue(1);
  std::int64_t at = 0;
  // 16 - 5 = 11: two blocks of B, 8. Beside A's decode 15: 12. Then the last 10.
  check_trtllm_steps(*rank, at, {{5 + 8, 0, 4 + 8}, {12, 1, 12}, {10, 1, 12}, {0, 2, 12}});
  CHECK(records[1].first_token == 3 * kMs);
  CHECK(records[1].finished == 4 * kMs);
}

// microBatchScheduler.cpp counts whole prompts until pull request 11637.
TEST_CASE("what the prefix cache holds counts against max_num_tokens in 1.2, and not in 1.3") {
  for (const bool counts : {true, false}) {
    // A prompt of 8 tokens; then two of the same 8 and 4 more, which do not fit 20 tokens whole: 12 + 12, or 4 + 4.
    auto records = records_of({{0, 8, 1}, {0, 12, 1}, {0, 12, 1}});
    const PrefixBlocks prefixes{
        .block_tokens = 4, .distinct = 4, .start = {0, 2, 5, 8}, .ids = {0, 1, 0, 1, 2, 0, 1, 3}};
    const auto rank = make_scheduler(trtllm(20, 100, 4, {.budget_counts_hits = counts}), {records, &prefixes});
    rank->enqueue(0);
    std::int64_t at = 0;
    check_trtllm_steps(*rank, at, {{8, 0, 3}});
    rank->enqueue(1);
    rank->enqueue(2);
    const RankBatch batch = rank->begin_step(1 * kMs);
    CHECK(batch.prefill_tokens == (counts ? 4 : 4 + 4));
  }
}

TEST_CASE("max_batch_size counts decodes and prompts together") {
  auto records = records_of({{0, 4, 3}, {0, 4, 3}, {0, 4, 3}});
  ServingOptions options = trtllm(16, 100, 4);
  options.max_running_requests = 2;
  const auto rank = make_scheduler(options, {records});
  for (int i = 0; i < 3; ++i) {
    rank->enqueue(i);
  }
  std::int64_t at = 0;
  check_trtllm_steps(*rank, at, {{8, 0, 4}, {0, 2, 4}, {0, 2, 4}, {4, 0, 2}});
}

// _waiting_requests: for batch_wait_timeout_iters steps, or until decodes and prompts have batch_wait_max_tokens_ratio x
// max_num_tokens; not where nothing decodes.
TEST_CASE("prompts beside decodes wait for a larger batch, and no longer than batch_wait_timeout_iters") {
  auto records = records_of({{0, 4, 20}, {0, 4, 2}, {0, 4, 2}, {0, 8, 2}});
  const auto rank = make_scheduler(
      trtllm(20, 100, 4, {.batch_wait_timeout_iters = 3, .batch_wait_max_tokens_ratio = 0.6}), {records});
  rank->enqueue(0);
  std::int64_t at = 0;
  check_trtllm_steps(*rank, at, {{4, 0, 6}});  // alone: nothing decodes
  rank->enqueue(1);
  check_trtllm_steps(*rank, at,
                     {{0, 1, 6}, {0, 1, 6}, {0, 1, 6}, {4, 1, 6 + 2}, {0, 2, 8}});  // 4 + 1 < 12: three steps
  rank->enqueue(2);
  check_trtllm_steps(*rank, at, {{0, 1, 6}});
  rank->enqueue(3);
  check_trtllm_steps(*rank, at, {{4 + 8, 1, 6 + 2 + 3}});  // 4 + 8 + 1 >= 12
}

TEST_CASE("a prefill instance reserves prompts, without the answers that others make") {
  // 4 blocks of 4 tokens: two prompts of 8, though each has 20 tokens to come elsewhere.
  auto records = records_of({{0, 8, 20}, {0, 8, 20}});
  ServingOptions options = trtllm(100, 4, 4);
  options.role = InstanceRole::kPrefill;
  const auto rank = make_scheduler(options, {records});
  rank->enqueue(0);
  rank->enqueue(1);
  std::int64_t at = 0;
  check_trtllm_steps(*rank, at, {{16, 0, 4}});
  CHECK(rank->take_handed_over().size() == 2);
}

// _handle_responses: a context request whose keys and values are being sent is no active request any more.
TEST_CASE("a prompt that is on its way holds memory, and no place in the batch of a prefill instance") {
  auto records = records_of({{0, 8, 20}, {0, 8, 20}, {0, 8, 20}});
  ServingOptions options = trtllm(100, 4, 4);  // 4 blocks of 4 tokens: two prompts of 8
  options.role = InstanceRole::kPrefill;
  options.max_running_requests = 1;
  const auto rank = make_scheduler(options, {records});
  for (int i = 0; i < 3; ++i) {
    rank->enqueue(i);
  }
  std::int64_t at = 0;
  check_trtllm_steps(*rank, at, {{8, 0, 2}, {8, 0, 4}});  // the second enters while the first is sent
  CHECK(rank->take_handed_over() == std::vector<std::int32_t>{0, 1});
  check_trtllm_steps(*rank, at, {{0, 0, 4}});  // the third finds no memory
  rank->release_handed_over(0);
  check_trtllm_steps(*rank, at, {{8, 0, 4}});
}

}  // namespace epsim
