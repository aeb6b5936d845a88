// Several instances: routing, separate clocks, prefill and decode apart.
#include "sim/cluster/deployment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/cluster/simulate.h"
#include "sim/core/rng.h"
#include "tests/cluster/random_deployment.h"

namespace epsim {
namespace {

using test::FixedPricer;
using test::kMs;
using test::trace_of;

InstanceSpec instance_of(InstanceModel& model, const ServingOptions& options) {
  InstanceSpec spec;
  spec.options = options;
  spec.model = &model;
  spec.path = &test::kMsPerToken;
  return spec;
}

ServingOptions engine(InstanceRole role, std::int64_t blocks = 1000) {
  ServingOptions out = test::one_rank(100, false);
  out.knobs = SglangKnobs{.reserved_decode_tokens = 4};
  out.role = role;
  out.kv_blocks = blocks;
  return out;
}

// A prefill instance whose prompts take 1 ms a token on the link.
InstanceSpec prefill_of(InstanceModel& model, std::int64_t blocks = 1000) {
  return instance_of(model, engine(InstanceRole::kPrefill, blocks));
}

}  // namespace

TEST_CASE("instances step at their own pace, and ranks are numbered over all of them") {
  FixedPricer fast(10_ms), slow(20_ms);
  const std::vector<InstanceSpec> specs = {instance_of(fast, engine(InstanceRole::kWhole)),
                                           instance_of(slow, engine(InstanceRole::kWhole))};
  const RunResult run = simulate(trace_of({{0, 5, 3}, {0, 5, 3}}), specs, Router::kRoundRobin, {});
  CHECK(run.requests[0].rank == 0);
  CHECK(run.requests[0].first_token == 10 * kMs);
  CHECK(run.requests[0].finished == 30 * kMs);
  CHECK(run.requests[1].rank == 1);
  CHECK(run.requests[1].first_token == 20 * kMs);
  CHECK(run.requests[1].finished == 60 * kMs);
  REQUIRE(run.instances.size() == 2);
  CHECK(run.instances[0].time.total.count() == doctest::Approx(0.03));
  CHECK(run.instances[1].time.total.count() == doctest::Approx(0.06));
  CHECK(run.steps == 6);
  CHECK(run.of_kind(StepKind::kPrefill).steps == 2);  // one of each
  CHECK(run.of_kind(StepKind::kDecode).steps == 4);   // two of each
  CHECK(run.of_kind(StepKind::kDecode).time.total.count() == doctest::Approx(2 * 0.010 + 2 * 0.020));
}

TEST_CASE("a deployment of one is an instance") {
  RandomStream random(Seed{5}, "deployment-of-one");
  const RequestTrace trace = test::random_trace(random);
  const ServingOptions options = test::random_options(random);
  test::UnevenPricer pricer;
  const std::vector<InstanceSpec> specs = {instance_of(pricer, options)};
  CHECK(simulate(trace, specs, Router::kLeastTokens, {}).fingerprint ==
        simulate(trace, options, pricer, {}).fingerprint);
}

TEST_CASE("a decode instance whose schedule overlaps hands a first token out when its loop finds the prompt") {
  FixedPricer pricer(10_ms);
  // A's prompt ends at 10 ms and is there at 14: steps of decodes begin at 14, 24, 34 ms. B's ends at 20, gets memory at 24,
  // between two steps, and is there at 31.
  const RequestTrace trace = trace_of({{0, 4, 10}, {5, 7, 10}});
  const auto second = [&](bool overlap, int interval) {
    ServingOptions decode = engine(InstanceRole::kDecode);
    decode.overlap_schedule = overlap;
    decode.receive_interval = interval;
    const std::vector<InstanceSpec> specs = {prefill_of(pricer), instance_of(pricer, decode)};
    const RunResult run = simulate(trace, specs, Router::kRoundRobin, {});
    CHECK(run.requests[0].first_token == 14 * kMs);
    return run.requests[1].first_token;
  };
  CHECK(second(false, 1) == 31 * kMs);
  CHECK(second(true, 1) == 34 * kMs);
  // Looked for after three steps, when the one at 34 ms is launched: sent from then on, there at 41, found at 44.
  CHECK(second(true, 3) == 44 * kMs);
}

TEST_CASE("least_tokens and cache_aware among instances") {
  FixedPricer pricer(10_ms);
  const std::vector<InstanceSpec> specs(2, instance_of(pricer, engine(InstanceRole::kWhole)));
  const RunResult least = simulate(trace_of({{0, 50, 1}, {0, 9, 1}, {0, 9, 1}}), specs, Router::kLeastTokens, {});
  CHECK(least.requests[1].rank == 1);
  CHECK(least.requests[2].rank == 1);
  // B has A's prefix, which instance 0 holds; C has none. Both instances are empty by then.
  RequestTrace trace = trace_of({{0, 10, 1}, {100, 10, 1}, {200, 10, 1}});
  trace.prefixes = {4, 3, {0, 2, 4, 5}, {0, 1, 0, 1, 2}};
  const RunResult aware = simulate(trace, specs, Router::kCacheAware, {});
  CHECK(aware.requests[1].rank == 0);
  CHECK(aware.requests.extras(1).cached_tokens == 8);
  CHECK(aware.kv.hit_tokens == 8);
  CHECK(aware.kv.prefix_cache);
}

TEST_CASE("a prefix cache counts as on where requests have prefixes in common, found or not") {
  FixedPricer pricer(10_ms);
  // Two requests of two blocks each, which are the same or not; sent to an instance each, they find nothing.
  const auto kv = [&](const std::vector<std::int32_t>& ids, bool on) {
    std::vector<InstanceSpec> specs(2, instance_of(pricer, engine(InstanceRole::kWhole)));
    for (InstanceSpec& spec : specs) {
      spec.options.prefix_caching = on;
    }
    RequestTrace trace = trace_of({{0, 10, 1}, {100, 10, 1}});
    trace.prefixes = {4, std::ranges::max(ids) + 1, {0, 2, 4}, ids};
    return simulate(trace, specs, Router::kRoundRobin, {}).kv;
  };
  CHECK(kv({0, 1, 0, 1}, true).prefix_cache);
  CHECK(kv({0, 1, 0, 1}, true).hit_tokens == 0);
  CHECK_FALSE(kv({0, 1, 2, 3}, true).prefix_cache);
  CHECK_FALSE(kv({0, 1, 0, 1}, false).prefix_cache);
}

TEST_CASE("prefill and decode apart: the first token counts when the keys and values have arrived") {
  FixedPricer prefill(10_ms, true), decode(5_ms, true);
  const std::vector<InstanceSpec> specs = {prefill_of(prefill), instance_of(decode, engine(InstanceRole::kDecode))};
  // All prompts end at 10 ms. A (4 tokens) travels until 14, B (6) from then until 20, C (2) until 22. A decodes
  // 14..19..24; B joins at 24 and ends at 29. C wants one token, which the decode instance hands out when it looks: at 24.
  const RunResult run = simulate(trace_of({{0, 4, 3}, {0, 6, 2}, {0, 2, 1}}), specs, Router::kRoundRobin, {});
  CHECK(run.requests[0].first_token == 14 * kMs);
  CHECK(run.requests[0].finished == 24 * kMs);
  CHECK(run.requests[1].first_token == 20 * kMs);
  CHECK(run.requests[1].finished == 29 * kMs);
  CHECK(run.requests[2].first_token == 24 * kMs);
  CHECK(run.requests[2].finished == 24 * kMs);
  CHECK(run.requests[0].rank == 1);
  CHECK(run.requests[2].rank == 1);
  CHECK(run.transfers.count == 3);
  CHECK(run.transfers.tokens == 12);
  CHECK(run.transfers.time.count() == doctest::Approx(0.012));
  CHECK(run.transfers.wait.count() == doctest::Approx(0.004 + 0.010));
  CHECK(run.latency.itl_s.count == 3);
  CHECK(run.latency.itl_s.max == doctest::Approx(9e-3));
  CHECK(prefill.batches.size() == 1);
  CHECK(decode.batches.size() == 3);
  CHECK(decode.batches[0][0].decode_context == 4);
  // Alone, no step runs for it there: 10 ms of prompt and 2 ms on the way, with either schedule.
  for (const bool overlap : {false, true}) {
    ServingOptions options = engine(InstanceRole::kDecode);
    options.overlap_schedule = overlap;
    const std::vector<InstanceSpec> two = {prefill_of(prefill), instance_of(decode, options)};
    const RunResult one = simulate(trace_of({{0, 2, 1}}), two, Router::kRoundRobin, {});
    CHECK(one.requests[0].finished == 12 * kMs);
    CHECK(one.steps == 1);
  }
}

TEST_CASE("what two prefill instances send to one lane at once waits there, byte by byte") {
  FixedPricer prefill(10_ms), decode(5_ms);
  const std::vector<InstanceSpec> specs = {prefill_of(prefill), prefill_of(prefill),
                                           instance_of(decode, engine(InstanceRole::kDecode))};
  // A (4 ms of travel) and B (6 ms) leave at 10 ms by lanes of their own, C (3 ms) behind A. The lane that receives is sent
  // twice what it takes until 16 ms, and as much as it takes until 17: a queue of 4 ms at 14, of 6 ms from 16 on. A's last
  // byte is taken at 14 + 4, B's at 16 + 6, C's at 17 + 6; C had waited 4 ms to leave.
  const RunResult run = simulate(trace_of({{0, 4, 2}, {0, 6, 2}, {0, 3, 2}}), specs, Router::kRoundRobin, {});
  CHECK(run.requests[0].first_token == (14 + 4) * kMs);
  CHECK(run.requests[1].first_token == (16 + 6) * kMs);
  CHECK(run.requests[2].first_token == (17 + 6) * kMs);
  CHECK(run.transfers.time.count() == doctest::Approx(0.013));
  CHECK(run.transfers.wait.count() == doctest::Approx(0.004 + 0.006 + 0.006 + 0.004));
}

TEST_CASE("a short prompt beside a long one costs each of them the short one's time") {
  FixedPricer prefill(10_ms), decode(5_ms);
  const std::vector<InstanceSpec> specs = {prefill_of(prefill), prefill_of(prefill),
                                           instance_of(decode, engine(InstanceRole::kDecode))};
  // A travels from 10 to 50 ms, B from 30 to 32: 2 ms wait from then on.
  const RunResult run = simulate(trace_of({{0, 40, 2}, {20, 2, 2}}), specs, Router::kRoundRobin, {});
  CHECK(run.requests[0].first_token == (50 + 2) * kMs);
  CHECK(run.requests[1].first_token == (32 + 2) * kMs);
}

TEST_CASE("a slow lane takes longer for a prompt, and a slow sender leaves it to others") {
  FixedPricer prefill(10_ms), decode(5_ms);
  const test::FixedPath slow(4e-3);
  std::vector<InstanceSpec> specs = {prefill_of(prefill), prefill_of(prefill),
                                     instance_of(decode, engine(InstanceRole::kDecode))};
  specs[2].path = &slow;  // 4 ms a token where it takes 1 ms to send
  const RunResult alone = simulate(trace_of({{0, 5, 2}}), specs, Router::kRoundRobin, {});
  CHECK(alone.requests[0].first_token == (10 + 20) * kMs);
  CHECK(alone.transfers.time.count() == doctest::Approx(0.020));
  CHECK(alone.transfers.wait.count() == doctest::Approx(0));
  specs[2].path = &test::kMsPerToken;
  specs[0].path = &slow;
  // A travels from 10 to 30 ms and takes a quarter of the lane; B from 10 to 15 takes it all: 1.25 ms wait at 15, which the
  // lane has caught up with long before 30.
  const RunResult both = simulate(trace_of({{0, 5, 2}, {0, 5, 2}}), specs, Router::kRoundRobin, {});
  CHECK(both.requests[0].first_token == 30 * kMs);
  CHECK(both.requests[1].first_token == Ticks(15 * kMs + kMs * 5 / 4));
}

// SGLang's disaggregation/prefill.py, send_kv_chunk. A prompt of 25 tokens in chunks of 10, 10 and 5, each of which takes
// 20 ms to compute and its tokens' milliseconds to travel.
TEST_CASE("chunks travel while later ones are computed, where the engine sends them") {
  FixedPricer prefill(20_ms), decode(5_ms);
  const auto run = [&](bool memory_first, std::int32_t output) {
    InstanceSpec source = prefill_of(prefill);
    source.options.token_budget = 10;
    source.options.memory_first = memory_first;
    const std::vector<InstanceSpec> specs = {source, instance_of(decode, engine(InstanceRole::kDecode))};
    return simulate(trace_of({{0, 25, output}}), specs, Router::kRoundRobin, {});
  };
  for (const std::int32_t output : {3, 1}) {
    const RunResult whole = run(false, output), parts = run(true, output);
    CHECK(whole.requests[0].first_token == (60 + 25) * kMs);
    // 10 tokens from 20 to 30 ms and from 40 to 50, the last 5 from 60 to 65.
    CHECK(parts.requests[0].first_token == (60 + 5) * kMs);
    for (const RunResult* r : {&whole, &parts}) {
      CHECK(r->transfers.count == 1);
      CHECK(r->transfers.tokens == 25);
      CHECK(r->transfers.time.count() == doctest::Approx(0.025));
      CHECK(r->transfers.wait.count() == 0);
      CHECK(r->completed == 1);
    }
  }
}

TEST_CASE("prompts wait on the prefill instance for memory of the decode instance, and the other way round") {
  FixedPricer prefill(1_ms), decode(1_ms);
  // Each pool holds one request of 10 + 10 tokens and not two.
  const std::vector<InstanceSpec> specs = {prefill_of(prefill, 21),
                                           instance_of(decode, engine(InstanceRole::kDecode, 21))};
  const RunResult run =
      simulate(trace_of({{0, 10, 10}, {0, 10, 10}, {0, 10, 10}, {0, 10, 10}}), specs, Router::kRoundRobin, {});
  CHECK(run.completed == 4);
  CHECK(run.transfers.count == 4);
  CHECK(run.kv.peak_blocks <= 21);
  // The first is computed by 1 ms, travels for 10 and decodes until 20; the second has been computed by 12, and so on.
  CHECK(run.transfers.wait_for_memory.count() == doctest::Approx(3 * 0.008));
  CHECK(run.transfers.wait.count() == doctest::Approx(0));
  CHECK(run.kv.time_full_share > 0);
}

// SGLang's PrefillBootstrapQueue: a request whose decode server has not allocated for it is not in the prefill's queue.
TEST_CASE("where the engine asks for memory first, a prompt is computed when it has some on the decode instance") {
  FixedPricer prefill(1_ms, true), decode(1_ms);
  std::vector<InstanceSpec> specs = {prefill_of(prefill), instance_of(decode, engine(InstanceRole::kDecode, 21))};
  const RequestTrace trace = trace_of({{0, 10, 10}, {0, 10, 10}, {0, 10, 10}});
  // Prompts that are computed first are done in one step, at 1 ms. Then each has its memory for 10 ms on the way and 9 of
  // decodes.
  const RunResult late = simulate(trace, specs, Router::kRoundRobin, {});
  CHECK(prefill.batches.size() == 1);
  CHECK(late.requests[2].finished == (1 + 3 * 19) * kMs);
  CHECK(late.transfers.wait_for_memory.count() == doctest::Approx((1 + 2) * 0.019));
  // Asked first, it holds it for the millisecond of its prompt, too.
  specs[0].options.memory_first = true;
  prefill.batches.clear();
  const RunResult first = simulate(trace, specs, Router::kRoundRobin, {});
  CHECK(prefill.batches.size() == 3);
  CHECK(first.requests[0].first_token == 11 * kMs);
  CHECK(first.requests[1].admitted == 20 * kMs);
  CHECK(first.requests[2].finished == 3 * 20 * kMs);
  CHECK(first.transfers.wait_for_memory.count() == doctest::Approx((1 + 2) * 0.020));
  CHECK(first.transfers.wait.count() == doctest::Approx(0));
  // No prefill instance is left when the second gets its memory: it fails, and so does the third.
  specs[0].changes = {{.at = 15 * kMs, .recovery = {}, .ranks = {0}, .fatal = true}};
  const RunResult lost = simulate(trace, specs, Router::kRoundRobin, {}, 5);
  CHECK(lost.completed == 1);
  CHECK(lost.failed == 2);
  CHECK(lost.requests[2].finished == 20 * kMs);
}

TEST_CASE("a router counts the prompts that a decode rank has memory for") {
  FixedPricer prefill(10_ms), decode(5_ms);
  InstanceSpec source = prefill_of(prefill);
  source.options.memory_first = true;
  const auto target = instance_of(decode, engine(InstanceRole::kDecode));
  const std::vector<InstanceSpec> specs = {source, target, target};
  const RunResult run =
      simulate(trace_of({{0, 4, 2}, {0, 4, 2}, {0, 4, 2}, {0, 4, 2}}), specs, Router::kLeastRequests, {});
  CHECK(run.transfers.received[1][0].prompts == 2);
  CHECK(run.transfers.received[2][0].prompts == 2);
}

// v1/core/sched/scheduler.py, _update_waiting_for_remote_kvs: a token less than the prompt counts as computed.
TEST_CASE("vLLM's decode instance makes the first token itself, from the prompt's last one") {
  FixedPricer prefill(10_ms, true), decode(5_ms, true);
  const auto vllm = [](InstanceRole role) {
    ServingOptions out = engine(role);
    out.engine = "vllm_v1";
    out.knobs = VllmKnobs{};
    return out;
  };
  const std::vector<InstanceSpec> specs = {instance_of(prefill, vllm(InstanceRole::kPrefill)),
                                           instance_of(decode, vllm(InstanceRole::kDecode))};
  // 10 ms of prompt, 4 on the way, and three steps for three tokens.
  const RunResult run = simulate(trace_of({{0, 4, 3}}), specs, Router::kRoundRobin, {});
  CHECK(run.requests[0].first_token == 19 * kMs);
  CHECK(run.requests[0].finished == 29 * kMs);
  CHECK(decode.batches.size() == 3);
  CHECK(decode.batches[0][0].decode_context == 3);
  CHECK(run.latency.itl_s.count == 2);
  CHECK(run.latency.itl_s.max == doctest::Approx(5e-3));
  // A prompt of one token, for one.
  const RunResult one = simulate(trace_of({{0, 1, 1}}), specs, Router::kRoundRobin, {});
  CHECK(one.requests[0].finished == (10 + 1 + 5) * kMs);
}

// nixl_connector.py, get_num_new_matched_tokens; SGLang's decode server keeps no prefixes (ChunkCache).
TEST_CASE("vLLM's decode instances keep what they received, and only the rest of a prompt comes") {
  RequestTrace trace = trace_of({{0, 8, 2}, {100, 12, 2}});
  trace.prefixes = {4, 3, {0, 2, 5}, {0, 1, 0, 1, 2}};
  const auto sent = [&](const std::string& name, const std::any& knobs) {
    FixedPricer prefill(10_ms), decode(5_ms);
    std::vector<InstanceSpec> specs = {prefill_of(prefill), instance_of(decode, engine(InstanceRole::kDecode))};
    for (InstanceSpec& spec : specs) {
      spec.options.engine = name;
      spec.options.knobs = knobs;
      spec.options.max_running_requests = 8;
    }
    const RunResult run = simulate(trace, specs, Router::kRoundRobin, {});
    CHECK(run.kv.hit_tokens == 8);  // of prompts, where they are computed
    CHECK(run.requests.extras(1).cached_tokens == 8);
    return run;
  };
  const RunResult kept = sent("vllm_v1", VllmKnobs{});
  CHECK(kept.transfers.tokens == 8 + 4);
  CHECK(kept.requests[1].first_token == (100 + 10 + 4 + 5) * kMs);
  CHECK(sent("trtllm_1_x", TrtllmKnobs{}).transfers.tokens == 8 + 4);
  CHECK(sent("sglang_0_5", SglangKnobs{.reserved_decode_tokens = 4}).transfers.tokens == 8 + 12);
}

TEST_CASE("a decode instance short of memory retracts to the host and computes nothing again") {
  FixedPricer prefill(1_ms), decode(1_ms);
  ServingOptions tight = engine(InstanceRole::kDecode, 40);
  test::sglang(tight).reserved_decode_tokens = 0;
  const std::vector<InstanceSpec> specs = {prefill_of(prefill), instance_of(decode, tight)};
  const RunResult run = simulate(trace_of({{0, 10, 20}, {0, 10, 20}, {0, 10, 20}}), specs, Router::kRoundRobin, {});
  CHECK(run.completed == 3);
  CHECK(run.kv.retractions > 0);
  CHECK(run.kv.recomputed_tokens == 0);
}

TEST_CASE("a request that decodes is not sent back to the host for one that comes") {
  // 58 and 53 tokens fill the pool of 111: the first has two to make, the second, which has come and is not taken in, five.
  // Were the first sent back for it, and it for the first in its turn, as long as both fit without a token more, none would end.
  FixedPricer prefill(1_ms), decode(1_ms);
  ServingOptions tight = engine(InstanceRole::kDecode, 111);
  test::sglang(tight).reserved_decode_tokens = 0;
  tight.overlap_schedule = true;
  tight.receive_interval = 3;
  const std::vector<InstanceSpec> specs = {prefill_of(prefill), instance_of(decode, tight)};
  std::atomic<bool> enough{false};
  RunControl control;
  control.stop = &enough;
  control.progress_every_steps = 500;
  control.on_progress = [&](const Progress&) { enough = true; };
  for (int later = 0; later < 60; ++later) {
    enough = false;
    const RunResult run = simulate(trace_of({{0, 50, 10}, {later, 53, 6}}), specs, Router::kRoundRobin, control);
    CHECK(run.completed == 2);
  }
}

using test::RandomDeployment;

TEST_CASE("random deployments conserve requests, tokens and memory, and a second run equals the first") {
  test::DeploymentSums sums;
  for (std::uint64_t i = 0; i < 500; ++i) {
    CAPTURE(i);
    CHECK(test::check_random_deployment(i, sums) == "");
  }
  CHECK(sums.transfers > 1000);
  CHECK(sums.retractions > 100);
}

TEST_CASE("a random deployment may be stopped at any step and still adds up") {
  int cut_short = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    CAPTURE(i);
    RandomStream random(Seed{2028}, "deployment-stop", i);
    const RequestTrace trace = test::random_trace(random);
    RandomDeployment deployment(random);
    const test::StopAfter stop(static_cast<std::int64_t>(1 + random.below(30)));
    if (random.below(2) == 0) {
      test::add_random_losses(random, deployment);
    }
    const RunResult run = simulate(trace, deployment.specs, deployment.router, stop.control, 1);
    CHECK((run.interrupted || run.completed + run.failed == std::ssize(trace.requests)));
    cut_short += run.interrupted ? 1 : 0;
  }
  CHECK(cut_short > 50);
}

}  // namespace epsim
