// The goodput search on a queue whose mean TTFT theory knows. One rank that serves one request at a time in a step of
// D is M/D/1: TTFT(rho) = D + rho D / (2 (1 - rho)) (Pollaczek 1930, Khinchine 1932), and D when idle. The knee at k is
// where that is k D:  rho = 2 (k - 1) / (2 (k - 1) + 1);  the saturation throughput is 1 / D.
#include "sim/study/goodput.h"

#include <doctest/doctest.h>
#include <tbb/global_control.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "sim/cluster/simulate.h"
#include "sim/core/error.h"
#include "sim/core/rng.h"
#include "sim/study/goodput_curve.h"
#include "sim/study/load_point.h"
#include "tests/support/errors.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

using test::check_contains;
using test::error_of;

constexpr double kStep = 0.01;  // D, seconds

double knee_rate(double k) { return 2 * (k - 1) / (2 * (k - 1) + 1) / kStep; }

RequestTrace poisson(int requests, std::uint64_t seed) {
  RandomStream arrivals(Seed{seed}, "arrivals");
  RequestTrace trace{"queue", {}};
  Seconds at{};
  for (int i = 0; i < requests; ++i) {
    at += Seconds{arrivals.exponential(1.0)};  // any rate: the search scales it
    trace.requests.push_back({to_ticks(at), 1, 1});
  }
  return trace;
}

// M/D/1 with steps of the given length.
SearchTarget queue(const RequestTrace& trace, int seed_index = 0, double step = kStep) {
  SearchTarget target;
  target.policy = "queue";
  target.seed_index = seed_index;
  target.trace = &trace;
  target.serve = [step](const RequestTrace& requests) {
    ServingOptions options = test::one_rank(4096);
    options.max_running_requests = 1;
    test::FixedPricer pricer(Seconds{step});
    return simulate(requests, options, pricer, {});
  };
  return target;
}

GoodputSearch search(const RequestTrace& trace, const GoodputOptions& options) {
  return search_goodput(queue(trace), options, {}, {});
}

// A record that waits, runs and ends as told, in seconds.
RequestRecord record(double arrival, double first, double finished, std::int32_t output_tokens) {
  RequestRecord r;
  r.state = RequestState::kCompleted;
  r.input_tokens = 1;
  r.output_tokens = output_tokens;
  r.arrival = to_ticks(Seconds{arrival});
  r.first_token = to_ticks(Seconds{first});
  r.finished = to_ticks(Seconds{finished});
  return r;
}

// Requests, one a second; each has its first token `ttft(i)` after its arrival and ends `stay(i)` after it.
template <class Ttft, class Stay>
RunResult run_of(int requests, Ttft ttft, Stay stay) {
  RunResult run;
  for (int i = 0; i < requests; ++i) {
    run.requests.push_back(record(i, i + ttft(i), i + stay(i), 3));
  }
  return run;
}

// 100 of them that stay alike.
template <class Ttft>
RunResult steady_run(Ttft ttft, double stay) {
  return run_of(100, ttft, [stay](int) { return stay; });
}

}  // namespace

TEST_CASE("M/D/1: the knee is where Pollaczek and Khinchine put it") {
  const RequestTrace trace = poisson(40'000, 1);
  for (const double k : {2.0, 5.0}) {
    CAPTURE(k);
    GoodputOptions options;
    options.k = k;
    const GoodputSearch found = search(trace, options);
    CHECK(found.idle_ttft_s == doctest::Approx(kStep));
    CHECK(found.saturation == doctest::Approx(1 / kStep).epsilon(1e-9));
    CHECK(found.knee.limit == KneeLimit::kTtft);
    CHECK(found.knee.rate == doctest::Approx(knee_rate(k)).epsilon(0.02));  // 66.7/s and 88.9/s
    CHECK(found.knee.ttft_s == doctest::Approx(k * kStep));
    CHECK_FALSE(found.knee.interpolated);
    CHECK(found.knee.bracket_share <= options.tolerance);
    CHECK(found.knee.steady);
    CHECK(found.best.offered <= found.knee.rate);
    CHECK(found.best.ttft_s.mean <= k * kStep);
  }
}

TEST_CASE("M/D/1: a ramp ahead of the trace, which is not steady yet, does not move the knee") {
  const RequestTrace steady = poisson(40'000, 1);
  RequestTrace trace{"queue", {}};
  for (int i = 0; i < 4'000; ++i) {
    trace.requests.push_back({std::chrono::seconds(10 * i), 1, 1});  // a tenth of the rate of what follows
  }
  trace.ramp = trace.requests.size();
  for (const Request& r : steady.requests) {
    trace.requests.push_back({std::chrono::seconds(40'000) + r.arrival, 1, 1});
  }
  const GoodputSearch found = search(trace, {}), without = search(steady, {});
  CHECK(found.knee.rate == doctest::Approx(without.knee.rate).epsilon(0.01));
  CHECK(found.best.requests == without.best.requests);
  // Rates are those of the requests behind the ramp: 40,000 at about 1/s, the 4,000 ahead ten times as far apart.
  const RequestTrace scaled = at_rate(first_of(trace, 100), 50);
  REQUIRE(scaled.requests.size() == 4'100);
  CHECK(to_seconds(scaled.requests.back().arrival - scaled.requests[4'000].arrival).count() ==
        doctest::Approx(99 / 50.0));
}

TEST_CASE("where conversations keep their own times, every rate asks for requests of its own") {
  const RequestTrace trace = poisson(4'000, 1);
  std::vector<double> asked;
  SearchTarget target = queue(trace);
  target.paced = [&](std::size_t count, double pace) {
    asked.push_back(pace * arrival_rate(trace));
    return at_rate(first_of(trace, count), asked.back());
  };
  const GoodputSearch found = search_goodput(target, {}, {}, {});
  for (const LoadPoint& p : found.curve) {
    CHECK(std::any_of(asked.begin(), asked.end(), [&](double rate) { return rate == doctest::Approx(p.offered); }));
  }
  CHECK(found.knee.rate == doctest::Approx(search(trace, {}).knee.rate).epsilon(1e-6));
}

TEST_CASE("M/D/1: the knee's sensitivity to k follows theory, and never falls with k") {
  const GoodputSearch found = search(poisson(40'000, 2), {});
  REQUIRE(found.sensitivity.size() == 7);
  double last = 0;
  for (const Knee& knee : found.sensitivity) {
    CAPTURE(knee.k);
    CHECK(knee.limit == KneeLimit::kTtft);
    CHECK(knee.rate == doctest::Approx(knee_rate(knee.k)).epsilon(0.05));
    CHECK(knee.rate >= last);
    last = knee.rate;
    CHECK(knee.interpolated == (knee.k != 5.0));
  }
}

TEST_CASE("M/D/1: mean number in the system and completed rate of a probe") {
  const RequestTrace trace = poisson(40'000, 3);
  const LoadPoint probe = measure_load_point(queue(trace).serve(at_rate(trace, 50)), 50, {});
  // rho = 0.5: L = rho + rho^2 / (2 (1 - rho)) = 0.75.
  CHECK(probe.concurrency == doctest::Approx(0.75).epsilon(0.03));
  CHECK(probe.completed == doctest::Approx(probe.measured_offered).epsilon(0.001));
  CHECK(probe.measured_requests == 32'000);
  CHECK(probe.stable);
  CHECK(probe.enough_requests);
}

TEST_CASE("equal searches on one thread and on two, and for every seed its own") {
  const std::vector<RequestTrace> traces = {poisson(2000, 1), poisson(2000, 2)};
  // Two policies, the second a tenth slower, under two seeds.
  const std::vector<SearchTarget> targets = {queue(traces[0], 0), queue(traces[1], 1), queue(traces[0], 0, 0.011),
                                             queue(traces[1], 1, 0.011)};
  std::vector<std::vector<GoodputSearch>> runs;
  for (const std::size_t threads : {1, 2, 2}) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    runs.push_back(search_all(targets, {}, {}));
  }
  for (const std::vector<GoodputSearch>& run : runs) {
    REQUIRE(run.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      REQUIRE(run[i].curve.size() == runs[0][i].curve.size());
      CHECK(run[i].knee.rate == runs[0][i].knee.rate);
      for (std::size_t p = 0; p < run[i].curve.size(); ++p) {
        CHECK(run[i].curve[p].offered == runs[0][i].curve[p].offered);
        CHECK(run[i].curve[p].fingerprint == runs[0][i].curve[p].fingerprint);
      }
    }
  }
  CHECK(runs[0][0].knee.rate != runs[0][1].knee.rate);
  // The same arrivals at a tenth of the speed less: the knee is a tenth lower but for the bracket's interpolation.
  CHECK(runs[0][0].knee.rate / runs[0][2].knee.rate == doctest::Approx(1.1).epsilon(0.01));
}

TEST_CASE("a search takes one burst, whose saturation its pilot shares") {
  const RequestTrace trace = poisson(6000, 6);  // a sixth of it is enough for a pilot
  SearchTarget target = queue(trace);
  std::atomic<int> bursts{0};
  target.serve = [&bursts, serve = target.serve](const RequestTrace& requests) {
    bursts += requests.requests.back().arrival == requests.requests.front().arrival ? 1 : 0;
    return serve(requests);
  };
  const std::vector<GoodputSearch> found = search_all({target}, {}, {});
  CHECK(bursts == 1);
  CHECK(found.front().saturation == doctest::Approx(1 / kStep).epsilon(0.01));
}

TEST_CASE("a rate beyond capacity is never the knee, though its TTFT and completed rate would do") {
  GoodputOptions options;
  options.k = 1e6;
  options.sensitivity = {};
  const RequestTrace trace = poisson(20'000, 4);
  const LoadPoint over = measure_load_point(queue(trace).serve(at_rate(trace, 104)), 104, options);
  CHECK(over.completed >= 0.95 * over.measured_offered);
  CHECK_FALSE(over.stable);
  CHECK_FALSE(acceptable(over, kStep, options));
  const GoodputSearch found = search(trace, options);
  CHECK(found.knee.limit == KneeLimit::kUnstable);
  CHECK(found.knee.rate < 1.02 / kStep);
  CHECK(found.knee.rate > 0.9 / kStep);
}

TEST_CASE("too few requests for the number in the system is an error that says how many are needed") {
  // Each request decodes for 400 steps, 50 at a time: near capacity, 50 and more are in the system, and 20 x 50 > 400.
  RequestTrace trace = poisson(400, 5);
  for (Request& r : trace.requests) {
    r.output_tokens = 400;
  }
  SearchTarget target = queue(trace);
  target.serve = [](const RequestTrace& requests) {
    test::FixedPricer pricer(Seconds{kStep});
    ServingOptions serving = test::one_rank(4096);
    serving.max_running_requests = 50;
    return simulate(requests, serving, pricer, {});
  };
  GoodputOptions options;
  options.max_drift = 1e9;
  options.min_completed = 0.01;
  const InputError error = error_of<InputError>([&] { search_goodput(target, options, {}, {}); });
  check_contains(error.what(), {"queue", "400", "too few", "are needed", "longer recording"});
}

TEST_CASE("a trace that can be made longer is made as long as the knee takes") {
  // Each request decodes for 40 steps, 50 at a time: near capacity 50 are in the system, and 20 x 50 = 1000 are needed.
  const auto make = [](std::size_t requests) {
    RequestTrace trace = poisson(static_cast<int>(requests), 5);
    for (Request& r : trace.requests) {
      r.output_tokens = 40;
    }
    return std::make_shared<const RequestTrace>(std::move(trace));
  };
  const auto search_from = [&](std::size_t requests) {
    const auto trace = make(requests);
    SearchTarget target = queue(*trace);
    target.longer = make;
    target.serve = [](const RequestTrace& all) {
      test::FixedPricer pricer(Seconds{kStep});
      ServingOptions serving = test::one_rank(4096);
      serving.max_running_requests = 50;
      return simulate(all, serving, pricer, {});
    };
    GoodputOptions options;
    options.min_requests_ratio = 200;  // 10,000 requests
    options.tolerance = 0.1;
    return search_all({target}, options, {}).front();
  };
  const GoodputSearch found = search_from(100);
  CHECK(found.knee.steady);
  CHECK(found.best.requests > 4000);
  CHECK(found.knee.rate == search_from(3000).knee.rate);  // however long the trace was
}

TEST_CASE("of several failing searches the first one's error is told, on any number of threads") {
  const RequestTrace trace = poisson(2000, 9);
  std::vector<SearchTarget> targets(3, queue(trace));
  for (std::size_t i = 1; i < 3; ++i) {
    targets[i].serve = [i](const RequestTrace&) -> RunResult { throw RunFailed("search " + std::to_string(i)); };
  }
  for (const std::size_t threads : {1, 2}) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    CHECK(std::string(error_of<RunFailed>([&] { search_all(targets, {}, {}); }).what()) == "search 1");
  }
}

TEST_CASE("warm-up and drain are not counted") {
  // TTFT 9 s in the first and last ten of a hundred requests, 1 s between; every stay is 2 s.
  const LoadPoint probe =
      measure_load_point(steady_run([](int i) { return i < 10 || i >= 90 ? 9.0 : 1.0; }, 2.0), 1.0, {});
  CHECK(probe.measured_requests == 80);
  CHECK(probe.ttft_s.mean == doctest::Approx(1.0));
  CHECK(probe.e2e_s.mean == doctest::Approx(2.0));
  CHECK(probe.tpot_s.mean == doctest::Approx(0.5));  // (2 s - 1 s) / 2 gaps
  CHECK(probe.concurrency == doctest::Approx(2.0));  // Little: 1/s x 2 s
  CHECK(probe.measured_offered == doctest::Approx(1.0));
  CHECK(probe.completed == doctest::Approx(1.0));
  CHECK(probe.stable);
}

TEST_CASE("a system that is still filling is not measured") {
  // One request a second stays 200 s. From 100 s to 900 s, the shares of warm-up and drain, 200 are in the system but
  // for the first 100 s, in which they rise from 100: 200 - 50 / 8 = 193.75. Twice as many, 387, warm up.
  const auto ttft = [](int i) { return i < 387 ? 9.0 : 1.0; };
  const LoadPoint probe = measure_load_point(run_of(1000, ttft, [](int) { return 200.0; }), 1.0, {});
  CHECK(probe.measured_requests == 900 - 387);
  CHECK(probe.ttft_s.mean == doctest::Approx(1.0));
  CHECK(probe.concurrency == doctest::Approx(200.0));
  CHECK(probe.stable);
  // Stays of 600 s: half of the requests warm up at most, and what is left, 400 s, cannot tell.
  const LoadPoint long_stays = measure_load_point(run_of(1000, ttft, [](int) { return 600.0; }), 1.0, {});
  CHECK(long_stays.measured_requests == 900 - 500);
  CHECK_FALSE(long_stays.stable);
}

TEST_CASE("requests complete at the rate at which the measured ones end") {
  const auto completed = [](double growth) {
    const LoadPoint probe =
        measure_load_point(run_of(
                               1000, [](int) { return 1.0; }, [growth](int i) { return 120.0 + growth * i; }),
                           1.0, {});
    return probe.completed / probe.measured_offered;
  };
  CHECK(completed(0) == doctest::Approx(1.0));
  CHECK(completed(0.1) == doctest::Approx(1 / 1.1).epsilon(1e-3));  // one ends every 1.1 s
  CHECK(completed(-0.1) == doctest::Approx(1.0));                   // the run is over before the requests have come
}

TEST_CASE("rates that were asked for are on the curve") {
  GoodputOptions options;
  options.rates = {30, 60};
  const GoodputSearch found = search(poisson(2000, 7), options);
  int seen = 0;
  for (const LoadPoint& p : found.curve) {
    seen += p.offered == 30 || p.offered == 60 ? 1 : 0;
  }
  CHECK(seen == 2);
}

TEST_CASE("a series drifts when it grows by more than the bound and more than by chance") {
  std::vector<double> flat(20, 5.0), rising, noisy;
  for (int i = 0; i < 20; ++i) {
    rising.push_back(1.0 + i);
    noisy.push_back(i == 15 ? 100.0 : 1.0);  // one outlier: a second half ten times the first, by chance
  }
  CHECK_FALSE(drifts(flat, 0.25));
  CHECK(drifts(rising, 0.25));  // means 5.5 and 15.5
  CHECK_FALSE(drifts(rising, 2.0));
  CHECK_FALSE(drifts(noisy, 0.25));
  std::vector<double> falling(rising.rbegin(), rising.rend());
  CHECK_FALSE(drifts(falling, 0.25));
}

TEST_CASE("the knee between two probes, by hand") {
  GoodputCurve curve;
  curve.idle_ttft_s = 1.0;
  for (const auto& [rate, ttft] : {std::pair{1.0, 2.0}, std::pair{2.0, 8.0}}) {
    LoadPoint p;
    p.offered = p.measured_offered = p.completed = rate;
    p.ttft_s.mean = ttft;
    p.stable = p.enough_requests = true;
    curve.add(p);
  }
  // From 2 s at 1/s to 8 s at 2/s: 4 s is halfway on a logarithmic scale. From 1 s at 0/s to 2 s at 1/s: sqrt 2.
  CHECK(knee_of(curve, 4.0, {}).rate == doctest::Approx(1.5));
  CHECK(knee_of(curve, std::sqrt(2.0), {}).rate == doctest::Approx(0.5));
  CHECK(knee_of(curve, 8.0, {}).limit == KneeLimit::kBeyond);
  // Of 2/s, 1.4 are completed: no more is a steady state, whatever k. There the TTFT is 2 s x 4^0.4, 3.48 s.
  curve.probes[1].completed = 1.4;
  double last = 0;
  for (const double k : {2.0, 3.0, 3.5, 4.0, 7.0, 8.0, 16.0}) {
    CAPTURE(k);
    const Knee knee = knee_of(curve, k, {});
    CHECK(knee.limit == (k <= 3 ? KneeLimit::kTtft : KneeLimit::kCompleted));
    CHECK(knee.rate == doctest::Approx(k <= 3 ? 1 + std::log(k / 2) / std::log(4) : 1.4));
    CHECK(knee.ttft_s == doctest::Approx(k <= 3 ? k : 2 * std::pow(4, 0.4)));
    CHECK(knee.rate >= last);
    last = knee.rate;
  }
  curve.probes[1].completed = 1.96;  // enough of them, but not steady
  curve.probes[1].stable = false;
  CHECK(knee_of(curve, 16.0, {}).limit == KneeLimit::kUnstable);
  CHECK(knee_of(curve, 16.0, {}).rate == doctest::Approx(1.96));
}

TEST_CASE("traces without a rate, and options that mean nothing, are refused") {
  const RequestTrace burst = test::trace_of({{5, 1, 1}, {5, 1, 1}});
  CHECK_THROWS_AS(at_rate(burst, 1.0), InputError);
  const RequestTrace few = poisson(30, 8);
  check_contains(error_of<InputError>([&] { search(few, {}); }).what(), {"30 requests", "at least 40"});
  struct Row {
    const char* option;
    void (*spoil)(GoodputOptions&);
  };
  const Row rows[] = {{"k", [](GoodputOptions& o) { o.k = 1; }},
                      {"k", [](GoodputOptions& o) { o.k = std::numeric_limits<double>::quiet_NaN(); }},
                      {"sensitivity",
                       [](GoodputOptions& o) {
                         o.sensitivity = {4, 2};
                       }},
                      {"tolerance", [](GoodputOptions& o) { o.tolerance = 0; }},
                      {"min-completed", [](GoodputOptions& o) { o.min_completed = 1.5; }},
                      {"warmup", [](GoodputOptions& o) { o.warmup_share = 0.9; }},
                      {"max-drift", [](GoodputOptions& o) { o.max_drift = 0; }},
                      {"rates", [](GoodputOptions& o) { o.rates = {-1}; }}};
  for (const Row& row : rows) {
    CAPTURE(row.option);
    GoodputOptions options;
    row.spoil(options);
    CHECK(error_of<InputError>([&] { validate(options); }).place.key == row.option);
  }
  CHECK_NOTHROW(validate({}));
}

TEST_CASE("a burst of equal requests that all fit in tells the saturation, too") {
  RunResult run;
  run.requests.assign(2000, record(0, 0.01, 0.05, 5));
  CHECK(saturation_rate(run, {}) == doctest::Approx(2000 / 0.05));
}

TEST_CASE("scaling keeps the pattern of arrivals, and requests that are alone have the idle TTFT") {
  const RequestTrace trace = test::trace_of({{100, 7, 9}, {200, 8, 9}, {500, 9, 9}});  // 2 gaps in 0.4 s: 5/s
  CHECK(arrival_rate(trace) == doctest::Approx(5.0));
  const RequestTrace slower = at_rate(trace, 2.5);
  CHECK(slower.requests[0].arrival == Ticks{});
  CHECK(slower.requests[1].arrival == 200 * test::kMs);
  CHECK(slower.requests[2].arrival == 800 * test::kMs);
  CHECK(slower.requests[2].input_tokens == 9);
  const RequestTrace alone = one_at_a_time(trace);
  test::FixedPricer pricer(10_ms);
  // Chunks of 4: 7, 8 and 9 tokens take 2, 2 and 3 steps.
  CHECK(idle_ttft_s(simulate(alone, test::one_rank(4), pricer, {})) == doctest::Approx((20 + 20 + 30) / 3.0 * 1e-3));
}

TEST_CASE("when a rate is asked again, and with how many requests") {
  GoodputOptions options;
  options.k = 5;
  options.min_requests_ratio = 8;
  const GoodputCurve curve{.idle_ttft_s = 1, .probes = {}};
  const TraceSize trace{.usual = 2000, .all = 7000};
  const auto after = [&](std::int64_t requests, double ttft_s, double in_system, bool stable) {
    LoadPoint p;
    p.measured_offered = p.completed = 1;
    p.ttft_s.mean = ttft_s;
    p.concurrency = p.outstanding = in_system;
    p.requests = requests;
    p.stable = stable;
    p.enough_requests = static_cast<double>(requests) >= options.min_requests_ratio * in_system;
    return requests_after(p, curve, trace, options);
  };
  CHECK_FALSE(after(2000, 3, 100, true).has_value());  // acceptable, with more than 8 x 100 requests
  CHECK_FALSE(after(2000, 6, 100, true).has_value());  // too late: above the knee
  CHECK(after(2000, 3, 100, false) == 6000);           // in time but drifting, perhaps by chance: three times as many
  CHECK(after(2000, 3, 650, true) == 6500);            // in time with too few: 1.25 x 8 x 650
  CHECK(after(6000, 3, 900, false) == 7000);           // never more than there are
  CHECK_FALSE(after(7000, 3, 900, false).has_value());
  CHECK(after(500, 6, 20, true) == 1500);   // too late below a rate that was in time: three times as many,
  CHECK(after(1500, 6, 20, true) == 2000);  // up to the usual number
}

TEST_CASE("a scenario's SLO is searched for where none is asked for") {
  epsim::Scenario scenario;
  scenario.protocol.slo = epsim::parse_slo("ttft.p99<2s");
  CHECK(name_of(epsim::by_protocol({}, scenario).slo) == "ttft.p99<2s");
  epsim::GoodputOptions asked;
  asked.slo = epsim::parse_slo("tpot.mean<50ms");
  CHECK(name_of(epsim::by_protocol(asked, scenario).slo) == "tpot.mean<50ms");
  scenario.protocol.slo = {};
  CHECK_FALSE(epsim::by_protocol({}, scenario).slo.any());
}

TEST_CASE("a protocol's run counts every request from an empty system, and asks for no steady state") {
  // TTFT grows by 1 ms a request: no steady state. Mean over all of i = 0 .. 59: 29.5 ms; the last answer at 59.059 s.
  const RunResult run = run_of(
      60, [](int i) { return 0.001 * i; }, [](int i) { return 0.001 * i; });
  GoodputOptions options;
  CHECK_FALSE(measure_load_point(run, 1, options).stable);
  options.count_all = true;
  const LoadPoint all = measure_load_point(run, 1, options);
  CHECK(all.stable);
  CHECK(all.enough_requests);
  CHECK(all.measured_requests == 60);
  CHECK(all.ttft_s.mean == doctest::Approx(0.0295));
  CHECK(all.completed == doctest::Approx(60 / 59.059));
}

TEST_CASE("a search by protocol asks every rate with the protocol's requests") {
  const RequestTrace trace = poisson(5000, 3);
  SearchTarget target = queue(trace);
  target.protocol_requests = 200;
  const std::vector<GoodputSearch> found = search_all({target}, {}, {});
  REQUIRE(found.front().curve.size() > 2);
  for (const LoadPoint& p : found.front().curve) {
    CHECK(p.requests == 200);
    CHECK(p.measured_requests == 200);
  }
  target.protocol_requests = 6000;
  check_contains(error_of<InputError>([&] { search_all({target}, {}, {}); }).what(),
                 {"the recording has 5000 requests"});
  GoodputOptions slo;
  slo.slo = parse_slo("ttft.p99<2s");
  target.protocol_requests = 200;
  check_contains(error_of<InputError>([&] { search_all({target}, slo, {}); }).what(),
                 {"`all` applies to the TTFT knee only"});
}

}  // namespace epsim
