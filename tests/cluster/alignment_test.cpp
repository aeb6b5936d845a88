// Prompts of several DP ranks started together (sim/scheduler/prefill_alignment.h), on instances of two ranks. A step
// with a prompt takes 30 ms however many ranks have one, any other 10 ms.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "sim/cluster/simulate.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

using test::kMs;
using test::trace_of;

class PromptsCost final : public InstanceModel {
 public:
  StepCost price(const StepAt&, std::span<const RankBatch> ranks) override {
    const bool prompts = std::any_of(ranks.begin(), ranks.end(), [](const auto& r) { return r.prefill_tokens > 0; });
    return test::declared_cost(prompts ? 30_ms : 10_ms);
  }
};

ServingOptions two_ranks(int max_delay_passes) {
  ServingOptions out = test::one_rank(100, false);
  out.dp_ranks = 2;
  out.kv_blocks = 1000;
  out.prefill_alignment.max_delay_passes = max_delay_passes;
  return out;
}

// A and B, one a rank, decode from 30 ms on. C comes to the first rank at 32 ms and D to the second at 45: one pass
// apart, since steps begin at 40 and 50.
const RequestTrace kOnePassApart = trace_of({{0, 5, 40}, {0, 5, 40}, {32, 5, 2}, {45, 5, 2}});

RunResult run(const RequestTrace& trace, const ServingOptions& options) {
  PromptsCost cost;
  return simulate(trace, options, cost, {});
}

}  // namespace

TEST_CASE("without a delayer each rank's prompt takes a long step of its own") {
  const RunResult r = run(kOnePassApart, two_ranks(0));
  CHECK(r.requests[2].first_token == 70 * kMs);   // 40 + 30
  CHECK(r.requests[3].first_token == 100 * kMs);  // 70 + 30
  CHECK(r.of_kind(StepKind::kPrefill).steps + r.of_kind(StepKind::kMixed).steps == 3);
}

TEST_CASE("the delayer holds the first prompt for one pass, and both share a step") {
  const RunResult r = run(kOnePassApart, two_ranks(30));
  CHECK(r.requests[2].admitted == 50 * kMs);
  CHECK(r.requests[2].first_token == 80 * kMs);
  CHECK(r.requests[3].first_token == 80 * kMs);
  CHECK(r.of_kind(StepKind::kPrefill).steps + r.of_kind(StepKind::kMixed).steps == 2);
}

TEST_CASE("a prompt that no other rank joins starts in pass max_delay_passes") {
  const RequestTrace alone = trace_of({{0, 5, 40}, {0, 5, 40}, {32, 5, 2}});
  CHECK(run(alone, two_ranks(3)).requests[2].admitted == 60 * kMs);  // held at 40 and 50
  // 45 of 1000 tokens are in use on C's rank: reserve_full holds A's input and output.
  ServingOptions low = two_ranks(3);
  low.prefill_alignment.token_usage_low_watermark = 0.5;
  CHECK(run(alone, low).requests[2].admitted == 40 * kMs);
}

TEST_CASE("an instance with nothing else to run passes 188 times a second until the prompt may start") {
  const RunResult r = run(trace_of({{7, 5, 2}}), two_ranks(3));
  CHECK(r.requests[0].admitted == 7 * kMs + 2 * kIdlePass);
  CHECK(r.requests[0].first_token == 37 * kMs + 2 * kIdlePass);
}

TEST_CASE("vLLM's interval: ranks with decodes take up prompts every third step, unless the latest left some") {
  ServingOptions options = two_ranks(0);
  options.engine = "vllm_v1";
  options.knobs = VllmKnobs{};
  options.prefill_alignment.schedule_interval = 3;
  // Steps of the wave: 0 (0 to 30, A and B), 1 (30), 2 (40, C is there), 3 (50, C and D).
  const RunResult r = run(kOnePassApart, options);
  CHECK(r.requests[2].admitted == 50 * kMs);
  CHECK(r.requests[3].admitted == 50 * kMs);
  // A step of 6 tokens holds A's decode and one prompt of 5: E is left over by step 3, and goes in step 4, at 80 ms.
  options.token_budget = 6;
  const RunResult left = run(trace_of({{0, 5, 40}, {0, 5, 40}, {32, 5, 9}, {33, 5, 9}, {34, 4, 9}}), options);
  CHECK(left.requests[2].admitted == 50 * kMs);
  CHECK(left.requests[4].admitted == 80 * kMs);
  // A rank without decodes is never held: one request alone in the first rank, the second's comes in step 2.
  options.token_budget = 100;
  CHECK(run(trace_of({{0, 5, 40}, {32, 5, 9}}), options).requests[1].admitted == 40 * kMs);
}

}  // namespace epsim
