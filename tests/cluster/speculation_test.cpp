// What speculative decoding changes in the steps of an instance of two DP ranks. A step with a prompt takes 30 ms however
// many ranks have one, any other 10 ms.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "sim/cluster/simulate.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

using test::kMs;
using test::trace_of;

class StepsOfPrompts final : public InstanceModel {
 public:
  StepCost price(const StepAt&, std::span<const RankBatch> ranks) override {
    prompts.push_back(0);
    decodes.push_back(0);
    for (const RankBatch& r : ranks) {
      prompts.back() += r.prefill_tokens;
      decodes.back() += r.decode_tokens;
    }
    return test::declared_cost(prompts.back() > 0 ? 30_ms : 10_ms);
  }
  std::vector<std::int64_t> prompts, decodes;  // [step] of all ranks
};

// One request a rank: the first decodes from 30 ms on, the second's prompt comes at 32 ms and takes two chunks.
const RequestTrace kPromptBesideADecode = trace_of({{0, 5, 4}, {32, 15, 2}});

RunResult run(bool decodes_await_prompts, StepsOfPrompts& model) {
  ServingOptions options = test::one_rank(10, false);
  options.dp_ranks = 2;
  options.kv_blocks = 1000;
  options.decodes_await_prompts = decodes_await_prompts;
  return simulate(kPromptBesideADecode, options, model, {});
}

}  // namespace

// SGLang's managers/scheduler.py, get_next_batch_to_run: "In speculative decoding, prefill batches and decode batches
// cannot be processed in the same DP attention group" (pull request 6081).
TEST_CASE("decodes idle while a prompt is computed on another rank") {
  StepsOfPrompts model;
  const RunResult r = run(true, model);
  CHECK(model.prompts == std::vector<std::int64_t>{5, 0, 10, 5, 0, 0});
  CHECK(model.decodes == std::vector<std::int64_t>{0, 1, 0, 0, 2, 1});
  CHECK(r.requests[0].finished == (30 + 10 + 30 + 30 + 10 + 10) * kMs);
  CHECK(r.requests[1].first_token == (30 + 10 + 30 + 30) * kMs);
}

TEST_CASE("without speculation they go on in the prompt's steps") {
  StepsOfPrompts model;
  const RunResult r = run(false, model);
  CHECK(model.prompts == std::vector<std::int64_t>{5, 0, 10, 5, 0});
  CHECK(model.decodes == std::vector<std::int64_t>{0, 1, 1, 1, 1});
  CHECK(r.requests[0].finished == (30 + 10 + 30 + 30) * kMs);
  CHECK(r.requests[1].first_token == (30 + 10 + 30 + 30) * kMs);
}

}  // namespace epsim
