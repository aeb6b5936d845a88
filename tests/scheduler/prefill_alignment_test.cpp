#include "sim/scheduler/prefill_alignment.h"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

namespace epsim {
namespace {

// Four ranks; which of them could start a prompt, and the share of its KV tokens that the first one uses.
bool holds(PrefillGate& gate, const std::vector<bool>& could, double usage = 0.9) {
  std::vector<PrefillRank> ranks;
  for (const bool c : could) {
    ranks.push_back({c, ranks.empty() ? usage : 0.9});
  }
  return gate.holds(ranks);
}

constexpr bool kYes = true, kNo = false;

PrefillGate delayer(int passes, std::optional<double> watermark) {
  return PrefillGate({.max_delay_passes = passes, .token_usage_low_watermark = watermark});
}

}  // namespace

// The cases of SGLang's own test of its negotiation (test_prefill_delayer.py, _NEGOTIATE_TEST_CASES).
TEST_CASE("the prefill delayer holds prompts that some ranks have and others lack, and no other") {
  PrefillGate gate = delayer(100, 0.8);
  CHECK_FALSE(holds(gate, {kYes, kYes, kYes, kYes}));
  CHECK(holds(gate, {kYes, kNo, kYes, kNo}));
  CHECK_FALSE(holds(gate, {kYes, kYes, kYes, kYes}));
  CHECK_FALSE(holds(gate, {kNo, kNo, kNo, kNo}));
}

TEST_CASE("the prefill delayer lets go below the watermark, of ranks that have a prompt") {
  PrefillGate gate = delayer(100, 0.8), without = delayer(100, std::nullopt);
  CHECK_FALSE(holds(gate, {kYes, kNo, kYes, kNo}, 0.5));
  CHECK(holds(without, {kYes, kNo, kYes, kNo}, 0.5));
  CHECK(holds(gate, {kNo, kNo, kYes, kNo}, 0.5));
  CHECK(holds(gate, {kYes, kNo, kYes, kNo}, 0.8));  // below, not at
}

TEST_CASE("the prefill delayer lets go in pass max_delay_passes, and counts anew after it") {
  PrefillGate gate = delayer(3, 0.8);
  for (int round = 0; round < 2; ++round) {
    CHECK(holds(gate, {kYes, kNo, kYes, kNo}));
    CHECK(holds(gate, {kYes, kNo, kYes, kNo}));
    CHECK_FALSE(holds(gate, {kYes, kNo, kYes, kNo}));
  }
  CHECK(holds(gate, {kYes, kNo, kYes, kNo}));
  CHECK_FALSE(holds(gate, {kNo, kNo, kNo, kNo}));  // nobody waits: the count is void
  CHECK(holds(gate, {kYes, kNo, kYes, kNo}));
  CHECK(holds(gate, {kYes, kNo, kYes, kNo}));
  CHECK_FALSE(holds(gate, {kYes, kNo, kYes, kNo}));
  PrefillGate never = delayer(1, std::nullopt);
  CHECK_FALSE(holds(never, {kYes, kNo, kYes, kNo}));
}

// step_counter % prefill_schedule_interval, from 0 in each wave (vLLM, v1/engine/core.py).
TEST_CASE("an interval of three lets prompts start in steps 0, 3 and 6 of a wave") {
  PrefillGate gate({.token_usage_low_watermark = {}, .schedule_interval = 3});
  for (int step = 0; step < 7; ++step) {
    CHECK(holds(gate, {kYes, kNo}) == (step % 3 != 0));
  }
  gate.on_idle();
  CHECK_FALSE(holds(gate, {kYes, kNo}));
  CHECK_FALSE(gate.off());
  CHECK(PrefillGate().off());
}

// --prefill-decode-interval 2 (SGLang pull request 35017): armed by any rank's prompts, counted down by every pass.
TEST_CASE("after a step with prompts so many passes hold all of them, those under way too") {
  PrefillGate gate({.token_usage_low_watermark = {}, .decode_interval = 2});
  CHECK_FALSE(gate.off());
  for (int round = 0; round < 2; ++round) {
    CHECK_FALSE(holds(gate, {kYes, kNo}));
    CHECK_FALSE(gate.holds_all());
    gate.on_formed(true);
    for (int pass = 0; pass < 2; ++pass) {
      CHECK(holds(gate, {kYes, kYes}));
      CHECK(gate.holds_all());
      gate.on_formed(false);
    }
  }
}

// _balance_adp_requests of TensorRT-LLM v1.1 (py_executor.py), counted by hand.
TEST_CASE("attention DP's balance holds prompts that some ranks lack, and lets go in step timeout_iters") {
  PrefillGate gate({.token_usage_low_watermark = {}, .timeout_iters = 3});
  const PrefillRank prompt{.could_start = true, .decodes = true}, none{.decodes = true};
  const PrefillRank alone{.could_start = true}, full{.could_start = true, .decodes = true, .has_slot = false};
  const auto step = [&](std::vector<PrefillRank> ranks) { return gate.holds(ranks); };
  CHECK_FALSE(step({prompt, prompt}));
  for (int round = 0; round < 2; ++round) {
    CHECK(step({prompt, none}));
    CHECK(step({prompt, full}));
    CHECK_FALSE(step({prompt, none}));
  }
  CHECK(step({prompt, none}));
  CHECK_FALSE(step({prompt, alone}));  // all have one: the count starts anew
  CHECK(step({prompt, none}));
  CHECK(step({prompt, none}));
  CHECK_FALSE(step({alone, none}));  // a rank with a prompt and no decodes would idle
  CHECK_FALSE(step({none, none}));   // nothing to hold
}

TEST_CASE("with batching_wait_iters prompts that all ranks have wait for more while all decode") {
  PrefillGate gate({.token_usage_low_watermark = {}, .timeout_iters = 50, .batching_wait_iters = 2});
  const std::vector<PrefillRank> all(2, PrefillRank{.could_start = true, .decodes = true});
  for (int round = 0; round < 2; ++round) {
    CHECK(gate.holds(all));
    CHECK(gate.holds(all));
    CHECK_FALSE(gate.holds(all));
  }
  CHECK(gate.holds(all));
  const std::vector<PrefillRank> start(2, PrefillRank{.could_start = true});
  CHECK_FALSE(gate.holds(start));
}

}  // namespace epsim
