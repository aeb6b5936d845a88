#include "sim/report/summary.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/core/check.h"
#include "tests/report/sample_run.h"

namespace epsim {

using test::at_ms;

TEST_CASE("throughput counts completed requests from the first arrival to the end") {
  const RunSummary s = summarize(test::sample_run());
  CHECK(s.number("duration_s") == 4.0);                   // 5 s - 1 s
  CHECK(s.number("requests_per_s") == 0.5);               // 2 / 4 s
  CHECK(s.number("input_tokens_per_s") == 50.0);          // 200 / 4 s
  CHECK(s.number("output_tokens_per_s") == 1.5);          // 6 / 4 s
  CHECK(s.number("input_tokens_per_s_per_gpu") == 25.0);  // on 2 GPUs
  CHECK(s.number("output_tokens_per_s_per_gpu") == 0.75);
  CHECK(s.number("offered_requests_per_s") == 1.0);  // one gap of 1 s
}

TEST_CASE("latencies are in milliseconds") {
  const RunSummary s = summarize(test::sample_run());
  CHECK(s.number("ttft_mean_ms") == 375.0);
  CHECK(s.number("ttft_p50_ms") == 250.0);  // the smallest sample with half of them at or below it
  CHECK(s.number("ttft_p90_ms") == 500.0);
  CHECK(s.number("ttft_max_ms") == 500.0);
  CHECK(s.number("ttft_samples") == 2);
  CHECK(s.number("tpot_samples") == 1);  // the request with one token has no gap
  CHECK(s.number("e2e_mean_ms") == 875.0);
}

TEST_CASE("balancedness: mean over layers of the mean over steps, and the worst layer by its number") {
  const RunSummary s = summarize(test::sample_run());
  CHECK(s.number("balancedness_mean") == 0.75);  // (2.0 / 4 + 4.0 / 4) / 2
  CHECK(s.number("balancedness_worst_layer") == 3);
  CHECK(s.number("balancedness_worst_layer_mean") == 0.5);
  CHECK(s.number("balancedness_lowest_step") == 0.25);
  CHECK(s.number("balancedness_planned") == doctest::Approx(0.95));  // (0.9 + 1.0) / 2
}

TEST_CASE("of equally bad layers the first is the worst") {
  RunResult run = test::sample_run();
  run.detail.layers[1].balancedness_sum = 2.0;
  CHECK(summarize(run).number("balancedness_worst_layer") == 3);
  run.detail.layers[1].balancedness_sum = 1.9;
  CHECK(summarize(run).number("balancedness_worst_layer") == 4);
}

TEST_CASE("balance of exchanges: mean over maximum of the bytes of NICs and of ports, by direction") {
  RunResult run = test::sample_run();
  const BytesPerSecond rate(50e9);
  run.detail.links = {{"node0.nic0.out", rate, Bytes(10)}, {"node0.nic1.out", rate, Bytes(30)},
                      {"node0.nic0.in", rate, Bytes(20)},  {"node0.nic1.in", rate, Bytes(20)},
                      {"gpu0.port.out", rate, Bytes(40)},  {"gpu1.port.out", rate, Bytes(0)},
                      {"gpu0.nic.out", rate, Bytes(40)},   {"node0.nic1.bridge.out", rate, Bytes(30)}};
  run.detail.bottleneck_s.clear();
  const RunSummary s = summarize(run);
  CHECK(s.number("nic_sent_balance") == doctest::Approx(20.0 / 30));
  CHECK(s.number("nic_received_balance") == 1.0);
  CHECK(s.number("gpu_sent_balance") == 0.5);
  CHECK(std::isnan(s.number("gpu_received_balance")));
  CHECK(s.number("sent_between_nodes_bytes") == 40);  // of the two NICs, whatever carried it there
}

TEST_CASE("time shares are of the time of all steps") {
  const RunSummary s = summarize(test::sample_run());
  CHECK(s.number("step_mean_ms") == 500.0);  // 2 s / 4
  CHECK(s.number("busy_share") == 0.5);      // 2 s of 4 s
  CHECK(s.number("experts_s") == 0.75);
  CHECK(s.number("experts_share") == 0.375);
  CHECK(s.number("interpolated_share") == 0.25);
  CHECK(s.number("straggler_share") == 0.25);
  double parts = 0, origins = 0;
  for (const std::string_view part : kLayerPartNames) {
    parts += s.number(std::string(part) + "_share");
  }
  for (const std::string_view origin : kOriginNames) {
    origins += s.number(std::string(origin) + "_share");
  }
  CHECK(parts == 1.0);
  CHECK(origins == 1.0);
}

TEST_CASE("the KV pool and what copies took of it") {
  const RunSummary s = summarize(test::sample_run());
  CHECK(s.number("kv_tokens_per_rank") == 1600);  // 100 blocks of 16
  CHECK(s.number("kv_pool_gib_per_gpu") == 3.0);
  CHECK(s.number("kv_copies_gib_per_gpu") == 1.0);  // 3 GiB is 75 % of 4 GiB
  CHECK(s.number("kv_peak_use_share") == 0.25);
  CHECK(s.number("kv_mean_use_share") == 0.125);
  CHECK(s.number("kv_full_time_share") == 0.0);
}

TEST_CASE("the busiest link") {
  const RunSummary s = summarize(test::sample_run());
  CHECK(s.text("link_name") == "node0.nic.out");
  CHECK(s.number("link_utilisation_share") == 0.1);  // 20 GB / (50 GB/s x 4 s)
}

TEST_CASE("nothing completed: rates are zero, latencies undefined") {
  const RunSummary s = summarize(test::empty_run());
  CHECK(s.flag("interrupted"));
  CHECK(s.number("completed_requests") == 0);
  CHECK(s.number("running_requests") == 2);
  CHECK(s.number("waiting_requests") == 1);
  CHECK(s.number("requests_per_s") == 0.0);
  CHECK(std::isnan(s.number("ttft_mean_ms")));
  CHECK(std::isnan(s.number("step_mean_ms")));
  CHECK(std::isnan(s.number("straggler_share")));
  CHECK(std::isnan(s.number("balancedness_mean")));
  CHECK(std::isnan(s.number("balancedness_planned")));
  CHECK(std::isnan(s.number("balancedness_worst_layer")));
  CHECK(s.text("link_name").empty());
}

TEST_CASE("no request at all") {
  const RunSummary s = summarize(RunResult{});
  CHECK(s.number("duration_s") == 0.0);
  CHECK(std::isnan(s.number("requests_per_s")));
  CHECK(std::isnan(s.number("offered_requests_per_s")));
  CHECK(std::isnan(s.number("kv_peak_use_share")));
}

TEST_CASE("a single request: it has a rate, the arrivals have none") {
  RunResult run = test::sample_run();
  run.requests.pop_back();
  run.completed = 1;
  const RunSummary s = summarize(run);
  CHECK(s.number("requests_per_s") == 0.25);  // 1 / 4 s
  CHECK(std::isnan(s.number("offered_requests_per_s")));
}

TEST_CASE("counts that contradict each other are a broken invariant") {
  RunResult run = test::sample_run();
  run.completed = 1;
  CHECK_THROWS_AS(summarize(run), InvariantBroken);
  run = test::sample_run();
  run.memory.lost_to_extras = 1.0;
  CHECK_THROWS_AS(summarize(run), InvariantBroken);
}

TEST_CASE("imbalance is the largest over the mean") {
  RunResult run = test::sample_run();  // one instance of two GPUs
  CHECK(imbalance(run, std::vector<double>{300, 100}) == 1.5);
  CHECK(imbalance(run, std::vector<double>{0, 0}) == 1.0);
  CHECK(std::isnan(imbalance(run, {})));
  // 100 and 300 of a mean of 200; the other instance has 3,000 and 3,000, for which nobody here waits.
  run.instances.push_back(run.instances.front());
  CHECK(imbalance(run, std::vector<double>{3000, 3000, 100, 300}) == 1.5);
}

TEST_CASE("prefill and decode pools have step kinds of their own") {
  RunResult run = test::sample_run();
  StepCost step;  // 10 ms, of which 4 ms attention
  step.total = Seconds(0.010);
  step.by_part[static_cast<std::size_t>(LayerPart::kAttention)] = Seconds(0.004);
  const auto instance = [&](InstanceRole role, StepKind kind) {
    InstanceTotals out;
    out.role = role;
    out.steps = 1;
    out.time = step;
    out.by_kind[static_cast<std::size_t>(kind)] = {1, step};
    return out;
  };
  run.instances = {instance(InstanceRole::kPrefill, StepKind::kPrefill),
                   instance(InstanceRole::kPrefill, StepKind::kPrefill),
                   instance(InstanceRole::kDecode, StepKind::kDecode)};
  const std::vector<StepKindFigures> kinds = summarize(run).step_kinds;
  REQUIRE(kinds.size() == 9);  // 3 of all, 3 of each pool
  CHECK(kinds[3].pool == "prefill");
  CHECK(kinds[3].steps == 2);  // both instances
  CHECK(kinds[3].mean_ms == doctest::Approx(10));
  CHECK(kinds[3].share == doctest::Approx(1));
  CHECK(kinds[3].seconds("attention") == doctest::Approx(0.008));
  CHECK(kinds[4].steps == 0);
  CHECK(std::isnan(kinds[4].mean_ms));
  CHECK(kinds[7].pool == "decode");
  CHECK(kinds[7].kind == StepKind::kDecode);
  CHECK(kinds[7].steps == 1);
}

// `count` requests a second apart, each of which has its first token after `ttft_ms` of its number, and its last after
// `stay_ms`.
template <class Ttft, class Stay>
RunResult run_of(int count, Ttft ttft_ms, Stay stay_ms) {
  RunResult run = test::sample_run();
  run.requests.clear();
  for (int i = 0; i < count; ++i) {
    const Ticks arrival = test::at_ms(1000 * i), finished = arrival + test::at_ms(stay_ms(i));
    run.requests.push_back(
        test::request(RequestState::kCompleted, arrival, arrival, arrival + test::at_ms(ttft_ms(i)), finished, 1));
    run.end = std::max(run.end, finished);
  }
  run.completed = count;
  return run;
}

bool overloaded(const RunResult& run) { return summarize(run).flag("overloaded"); }

TEST_CASE("overload: fewer requests end than arrive, and they wait for longer and longer") {
  // A server that takes 1 s + x for each of n requests, one a second: request i stays 1 + x (i + 1) seconds.
  const auto server = [](int n, double x) {
    const auto stay = [x](int i) { return static_cast<std::int64_t>(1000 + 1000 * x * (i + 1)); };
    return run_of(n, stay, stay);
  };
  // From 100 s to 199 s 79 end (one each 1.25 s) and 100 arrive; 79 < 95 and 79 < 100 - 2 x 10. Stays of the first
  // quarter are 1 + 0.25 x 25.5 = 7.4 s on average, of the third 32.4.
  const RunResult slow = server(200, 0.25);
  CHECK(overloaded(slow));
  CHECK(!overloaded(server(200, 0.2)));  // 82 end: less than 95 %, but not by more than chance
  CHECK(!overloaded(server(99, 1)));     // too few to tell
  RunResult cut = slow;
  cut.interrupted = true;
  CHECK(!overloaded(cut));
}

TEST_CASE("overload: a service that fills during the first half and is steady then keeps up") {
  const auto stay = [](int i) { return 1250 + 500 * std::min(i, 90); };
  CHECK(!overloaded(run_of(200, stay, stay)));
}

TEST_CASE("overload: while a service fills, only the time to the first token tells") {
  // Stays of 6,000 s: nothing ends in the 199 s in which requests arrive. First tokens come 0.15 s later with each
  // request, after 2 + 0.15 x 24.5 = 5.7 s in the first quarter and 20.7 s in the third: more than twice, and by more
  // than (1 / 0.95 - 1) x 99.5 = 5.2 s. Where the first one takes 20 s, 23.7 and 38.7 s: steps take that long.
  const auto decodes = [](int first_ms, int later_ms) {
    return run_of(
        200, [=](int i) { return first_ms + later_ms * i; }, [](int) { return 6'000'000; });
  };
  CHECK(overloaded(decodes(2000, 150)));
  CHECK(!overloaded(decodes(20'000, 150)));
  CHECK(!overloaded(decodes(250, 0)));  // 40/s of a service in which requests stay for 36 s, after 3 s
}

TEST_CASE("overload: decodes that pile up behind prompts, whose first tokens come at once") {
  // Stays grow by 0.5 s with each request: 2 + 0.5 x 24.5 = 14.25 s in the first quarter, below a quarter of 199 s, and
  // 64.25 s in the third. Request i ends at 2 + 1.5 i seconds: 66 of them between 100 and 199 s.
  const auto growing = [](int first_ms) {
    return run_of(
        200, [](int) { return 250; }, [=](int i) { return first_ms + 500 * i; });
  };
  CHECK(overloaded(growing(2000)));
  RunResult one_failed = growing(2000);
  one_failed.requests.front().state = RequestState::kFailed;
  CHECK(overloaded(one_failed));
  CHECK(!overloaded(growing(40'000)));  // 52 s in the first quarter: too short to tell
}

// An outage before the 100th of 200 requests fails those that stay for 25 s then, so that only 75 end from 100 to 199 s, fewer
// than 100 - 2 x 10. Those that come next wait for what came before them: until 140 s, in the third quarter (17 s on average,
// 1 s in the first), or for longer and longer.
TEST_CASE("overload: not what waits after an outage, once it has been caught up with") {
  const auto after_outage = [](bool caught_up) {
    const auto ttft = [=](int i) { return i < 100 ? 1000 : caught_up ? 1000 * std::max(1, 140 - i) : 1000 * (i - 90); };
    RunResult run = run_of(200, ttft, [=](int i) { return std::max(25'000, ttft(i)); });
    for (std::size_t i = 75; i < 100; ++i) {
      run.requests[i].state = RequestState::kFailed;
      run.requests[i].finished = at_ms(100'000);
    }
    return run;
  };
  CHECK(!overloaded(after_outage(true)));
  CHECK(overloaded(after_outage(false)));
}

}  // namespace epsim
