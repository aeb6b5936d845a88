// The search for the highest rate at which an SLO holds: laws whose answer is known, and brute force.
#include "sim/scenario/slo.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "sim/cluster/simulate.h"
#include "sim/core/error.h"
#include "sim/core/rng.h"
#include "sim/study/goodput.h"
#include "sim/study/load_point.h"
#include "sim/study/slo_curve.h"
#include "tests/support/errors.h"
#include "tests/support/fakes.h"
#include "tests/support/small_scenario.h"

namespace epsim {
namespace {

using test::check_contains;
using test::error_of;

// Poisson arrivals, prompts of up to `input` tokens and answers of up to `output`. The first ones are the same for any
// number of requests.
RequestTrace random_trace(std::size_t requests, std::uint64_t seed, int input, int output) {
  RandomStream random(Seed{seed}, "slo.requests");
  RequestTrace trace{"random", {}};
  Seconds at{};
  for (std::size_t i = 0; i < requests; ++i) {
    at += Seconds{random.exponential(1.0)};
    const auto length = [&](int most) { return 1 + static_cast<std::int32_t>(random.uniform() * most); };
    const std::int32_t prompt = length(input);
    trace.requests.push_back({to_ticks(at), prompt, length(output)});
  }
  return trace;
}

// A step takes `fixed` and so much for each prompt token and running request.
class LinearPricer : public InstanceModel {
 public:
  LinearPricer(double fixed, double per_token, double per_request)
      : fixed_(fixed), per_token_(per_token), per_request_(per_request) {}
  StepCost price(const StepAt&, std::span<const RankBatch> ranks) override {
    double s = fixed_;
    for (const RankBatch& r : ranks) {
      s += per_token_ * static_cast<double>(r.prefill_tokens) + per_request_ * static_cast<double>(r.decode_tokens);
    }
    return test::declared_cost(Seconds{s});
  }

 private:
  double fixed_, per_token_, per_request_;
};

// Of the measured part: all but the first fifth and the last tenth.
std::vector<double> values_of(const RunResult& run, LatencyMetric metric) {
  std::vector<double> out;
  for (std::size_t i = run.requests.size() / 5; i < run.requests.size() - run.requests.size() / 10; ++i) {
    const RequestRecord& r = run.requests[i];
    const double ttft = to_seconds(r.first_token - r.arrival).count(), e2e = to_seconds(r.finished - r.arrival).count();
    if (metric != LatencyMetric::kTpot) {
      out.push_back(metric == LatencyMetric::kTtft ? ttft : e2e);
    } else if (r.output_tokens > 1) {
      out.push_back((e2e - ttft) / (r.output_tokens - 1));
    }
  }
  return out;
}

double share_within(const std::vector<double>& values, double bound) {
  const auto good = std::count_if(values.begin(), values.end(), [&](double v) { return v <= bound; });
  return static_cast<double>(good) / static_cast<double>(values.size());
}

// Whether the SLO holds in a run, worked out from its records alone; one per-request bound at most.
bool brute_force_holds(const RunResult& run, const Slo& slo) {
  for (const SloTerm& term : slo.terms) {
    const std::vector<double> values = values_of(run, term.metric);
    const double bound = term.bound.count();
    if (term.stat == LatencyStat::kMean) {
      double sum = 0;
      for (const double v : values) {
        sum += v;
      }
      if (sum / static_cast<double>(values.size()) > bound) {
        return false;
      }
      continue;
    }
    const std::map<LatencyStat, double> needed = {{LatencyStat::kEach, slo.attainment},
                                                  {LatencyStat::kP50, 0.5},
                                                  {LatencyStat::kP90, 0.9},
                                                  {LatencyStat::kP95, 0.95},
                                                  {LatencyStat::kP99, 0.99}};
    if (share_within(values, bound) < needed.at(term.stat)) {
      return false;
    }
  }
  // It keeps up: the second half of the requests stays no longer than the first, but for chance.
  const std::vector<double> stays = values_of(run, LatencyMetric::kE2e);
  double first = 0, second = 0;
  for (std::size_t i = 0; i < stays.size() / 2; ++i) {
    first += stays[i];
    second += stays[stays.size() - 1 - i];
  }
  return second <= 1.3 * first;
}

struct RateRange {
  double holds = 0, fails = 0;  // neighbours on the grid
};

// The highest rate of a grid at which the SLO holds, and the next: 25 % apart over the whole range, then 3 %.
RateRange brute_force(const SearchTarget& target, const Slo& slo, double lowest, std::size_t requests) {
  const auto trace = target.longer(requests);
  const auto holds = [&](double rate) {
    return brute_force_holds(target.serve(at_rate(first_of(*trace, requests), rate)), slo);
  };
  RateRange out{0, lowest};
  for (const double step : {1.25, 1.03}) {
    double rate = out.holds > 0 ? out.holds * step : lowest;
    while (holds(rate)) {
      out.holds = rate;
      rate *= step;
    }
    out.fails = rate;
  }
  return out;
}

// Server and SLO number `n`, drawn at random.
struct RandomCase {
  SearchTarget target;
  RequestTrace trace;
  GoodputOptions options;
  double lowest = 0;  // requests/s, at which requests are nearly alone
};

void random_case(int n, RandomCase& out) {
  RandomStream random(Seed{static_cast<std::uint64_t>(n)}, "slo.case");
  const auto between = [&](double low, double high) { return low + random.uniform() * (high - low); };
  const int input = static_cast<int>(between(20, 400)), output = static_cast<int>(between(2, 24));
  const double fixed = between(0.002, 0.02), per_token = fixed * between(0.0005, 0.01);
  const double per_request = fixed * between(0.005, 0.1);
  ServingOptions serving = test::one_rank(static_cast<std::int64_t>(between(100, 1000)), random.uniform() < 0.5);
  serving.max_running_requests = static_cast<int>(between(4, 40));
  const auto seed = static_cast<std::uint64_t>(n);
  out.trace = random_trace(1000, seed, input, output);
  out.target.policy = "random";
  out.target.trace = &out.trace;
  out.target.longer = [=](std::size_t count) {
    return std::make_shared<const RequestTrace>(random_trace(count, seed, input, output));
  };
  out.target.serve = [=](const RequestTrace& requests) {
    LinearPricer pricer(fixed, per_token, per_request);
    return simulate(requests, serving, pricer, {});
  };
  out.lowest = 0.02 / (fixed * (1 + output));
  const RunResult idle = out.target.serve(at_rate(first_of(out.trace, 300), out.lowest));
  const auto term = [&](LatencyMetric metric, LatencyStat stat) {
    const std::vector<double> values = values_of(idle, metric);
    const double most = *std::max_element(values.begin(), values.end());
    out.options.slo.terms.push_back({metric, stat, Seconds{most * between(1.2, 4)}});
  };
  constexpr LatencyStat kStats[] = {LatencyStat::kMean, LatencyStat::kP90, LatencyStat::kP95, LatencyStat::kP99};
  term(static_cast<LatencyMetric>(n % 3), n % 4 == 3 ? LatencyStat::kEach : kStats[n % 4]);
  if (n % 2 == 0) {
    term(static_cast<LatencyMetric>((n + 1) % 3), kStats[(n / 2) % 4]);
  }
  out.options.slo.attainment = 0.9;
}

// A system whose requests are in time with the chance `attained(rate)`; every request stays 2 s.
template <class Attained>
SearchTarget chance_subject(const RequestTrace& trace, Attained attained) {
  SearchTarget out;
  out.policy = "chance";
  out.trace = &trace;
  out.serve = [attained](const RequestTrace& requests) {
    const double chance = attained(arrival_rate(requests));
    RandomStream random(Seed{5}, "slo.chance");
    RunResult run;
    for (const Request& r : requests.requests) {
      RequestRecord record;
      record.state = RequestState::kCompleted;
      record.output_tokens = 3;
      record.arrival = r.arrival;
      record.first_token = r.arrival + (random.uniform() < chance ? 900 : 1050) * test::kMs;
      record.finished = r.arrival + 2000 * test::kMs;
      run.requests.push_back(record);
    }
    return run;
  };
  return out;
}

GoodputOptions options_of(const std::string& slo) {
  GoodputOptions out;
  out.slo = parse_slo(slo);
  return out;
}

}  // namespace

TEST_CASE("SLO: the highest rate at which it holds, though more requests meet it at a rate beyond") {
  // Requests in time: 99.9 % up to 5.7/s, 10 % up to 6.8/s, 45 % beyond: at 20/s, 9 requests/s are in time. A search
  // for the most requests in time, or one that stops at a local best, ends beyond 6.8/s.
  const RequestTrace trace = random_trace(60'000, 3, 10, 10);
  const SearchTarget target = chance_subject(trace, [](double rate) {
    return rate <= 5.7 ? 0.999 : rate <= 6.8 ? 0.1 : rate <= 20 ? 0.45 : 0.0;
  });
  for (const double start : {0.5, 5.0, 7.1, 40.0}) {
    CAPTURE(start);
    const GoodputSearch found = search_slo(target, options_of("ttft<1s"), {.rate = start, .step = 1.5}, {});
    CHECK(found.slo.holds);
    CHECK(found.slo.rate == doctest::Approx(5.7).epsilon(0.02));
    CHECK(found.slo.limit == "ttft<1s");
    CHECK(found.best.offered <= 5.7);
    CHECK(found.best.slo.attainment >= 0.99);
  }
}

TEST_CASE("SLO: rates that are hard to tell take more requests, and the interval covers the truth") {
  // The share that is late grows as rate^2: 1 % at 5/s; 2 % away it is 0.96 % or 1.04 %, which 1000 requests do not
  // tell.
  const RequestTrace trace = random_trace(60'000, 4, 10, 10);
  const SearchTarget target = chance_subject(trace, [](double rate) { return 1 - 0.01 * (rate / 5) * (rate / 5); });
  const GoodputSearch found = search_slo(target, options_of("ttft<1s"), {.rate = 2, .step = 1.5}, {});
  CHECK(found.slo.rate == doctest::Approx(5).epsilon(0.08));
  CHECK(found.slo.low <= 5);
  CHECK(found.slo.high >= 5);
  std::int64_t most = 0;
  for (const LoadPoint& p : found.curve) {
    most = std::max(most, p.requests);
  }
  CHECK(most > 20'000);
}

TEST_CASE("SLO: one that never holds is an answer; one that overload alone ends says so") {
  const RequestTrace trace = random_trace(3000, 6, 10, 10);
  const SearchTarget late = chance_subject(trace, [](double) { return 0.5; });
  const GoodputSearch never = search_slo(late, options_of("ttft<1s"), {.rate = 5, .step = 1.5}, {});
  CHECK_FALSE(never.slo.holds);
  CHECK(never.slo.rate == 0);
  CHECK(never.slo.limit == "ttft<1s");
  // As many are late at 5/s as at a quarter of it, so requests alone are asked next, and few of them.
  REQUIRE(never.curve.size() == 3);
  CHECK(never.curve[1].offered == doctest::Approx(5.0 / 4));
  CHECK(never.curve[0].offered == doctest::Approx(5.0 / 1000));
  CHECK(never.curve[0].requests == 100);
  // Where these are in time after all, the search goes on above.
  const RequestTrace more = random_trace(60'000, 6, 10, 10);
  const SearchTarget rarely = chance_subject(more, [](double rate) { return rate <= 0.02 ? 0.999 : 0.5; });
  const GoodputSearch low = search_slo(rarely, options_of("ttft<1s"), {.rate = 5, .step = 1.5}, {});
  CHECK(low.slo.holds);
  CHECK(low.slo.rate == doctest::Approx(0.02).epsilon(0.02));

  // One request at a time in steps of 10 ms, and a bound on gaps that do not exist: capacity ends it, at 100/s.
  const RequestTrace long_trace = random_trace(30'000, 7, 1, 1);
  SearchTarget queue;
  queue.policy = "queue";
  queue.trace = &long_trace;
  queue.serve = [](const RequestTrace& requests) {
    ServingOptions options = test::one_rank(4096);
    options.max_running_requests = 1;
    test::FixedPricer pricer(10_ms);
    return simulate(requests, options, pricer, {});
  };
  const GoodputSearch full = search_slo(queue, options_of("tpot.mean<1s"), {.rate = 10, .step = 1.5}, {});
  CHECK(full.slo.limit == "overload");
  CHECK(full.slo.rate == doctest::Approx(100).epsilon(0.06));
}

TEST_CASE("SLO: M/D/1's mean TTFT is where Pollaczek and Khinchine put it") {
  // TTFT = D + rho D / (2 (1 - rho)) = 3 D at rho = 0.8; D = 10 ms.
  const auto make = [](std::size_t n) { return std::make_shared<const RequestTrace>(random_trace(n, 8, 1, 1)); };
  const auto trace = make(1000);
  SearchTarget queue;
  queue.policy = "queue";
  queue.trace = trace.get();
  queue.longer = make;
  queue.serve = [](const RequestTrace& requests) {
    ServingOptions options = test::one_rank(4096);
    options.max_running_requests = 1;
    test::FixedPricer pricer(10_ms);
    return simulate(requests, options, pricer, {});
  };
  GoodputOptions options = options_of("ttft.mean<30ms");
  options.tolerance = 0.01;
  const GoodputSearch found = search_slo(queue, options, {.rate = 20, .step = 1.5}, {});
  CHECK(found.slo.rate == doctest::Approx(80).epsilon(0.03));
  CHECK(found.slo.limit == "ttft.mean<30ms");
  // As well from a start of 10,000 times what is served, a thousandth of which is still an overload.
  CHECK(search_slo(queue, options, {.rate = 1e6, .step = 1.5}, {}).slo.rate == doctest::Approx(80).epsilon(0.03));
}

TEST_CASE("SLO: the search agrees with brute force on random servers and SLOs") {
  for (int n = 0; n < 6; ++n) {
    CAPTURE(n);
    RandomCase drawn;
    random_case(n, drawn);
    CAPTURE(name_of(drawn.options.slo));
    const GoodputSearch found = search_slo(drawn.target, drawn.options, {.rate = 5 * drawn.lowest, .step = 1.5}, {});
    const RateRange truth = brute_force(drawn.target, drawn.options.slo, drawn.lowest, 10'000);
    CAPTURE(truth.holds);
    CAPTURE(truth.fails);
    CHECK(found.slo.rate >= 0.94 * truth.holds);
    CHECK(found.slo.rate <= 1.06 * truth.fails);
  }
}

TEST_CASE("SLO: the search agrees with brute force on scenarios") {
  struct Row {
    std::vector<std::string> settings;
    std::string slo;
  };
  for (const Row& row : {Row{{}, "ttft.p95<80ms"}, Row{{"requests.output_tokens=24"}, "tpot.mean<20ms,ttft.p99<300ms"},
                         Row{{"cluster.nodes=1", "requests.input_tokens=300"}, "e2e<400ms,attainment>=0.95"}}) {
    CAPTURE(row.slo);
    const std::vector<Scenario> scenarios{test::small(row.settings)};
    const RunControl control;
    const std::vector<SearchTarget> targets = targets_of(scenarios, control);
    GoodputOptions options = options_of(row.slo);
    options.tolerance = 0.03;
    const GoodputSearch found = search_all(targets, options, {}).front();
    REQUIRE(found.slo.holds);
    const RateRange truth = brute_force(targets.front(), options.slo, found.slo.rate / 3, 2500);
    CAPTURE(truth.holds);
    CAPTURE(truth.fails);
    CHECK(found.slo.rate >= 0.92 * truth.holds);
    CHECK(found.slo.rate <= 1.08 * truth.fails);
  }
}

TEST_CASE("SLO: verdicts that contradict each other are asked again with more requests") {
  const GoodputOptions options = options_of("ttft<1s");
  SloCurve curve{.start = 1, .usual = 1000, .available = 100'000, .probes = {}};
  const auto add = [&](double rate, bool holds, std::int64_t requests) {
    LoadPoint p;
    p.offered = p.measured_offered = p.completed = rate;
    p.requests = requests;
    p.enough_requests = true;
    p.slo = {0.9, holds ? -0.5 : 0.5, 0.1, 0, holds, true};
    curve.add(p);
  };
  CHECK(next_slo_step(curve, options)->rate == 1);
  add(2, false, 1000);  // by chance
  add(6, true, 4000);
  const auto again = next_slo_step(curve, options);
  CHECK(again->rate == 2);
  CHECK(again->requests == 2000);
  add(2, true, 2000);
  CHECK(curve.probes.size() == 2);
  CHECK(next_slo_step(curve, options)->rate > 6);  // upwards again: nothing fails any more
  // With as many requests as there may be it stays: the rate that nothing contradicts, and an interval over both.
  add(1, true, 50'000);
  add(2, false, 50'000);
  add(6, true, 50'000);
  CHECK_FALSE(next_slo_step(curve, options).has_value());
  const SloFinding found = slo_finding(curve, options);
  CHECK(found.rate == 1);
  CHECK(found.low == 1);
  CHECK(found.high == 6);
}

TEST_CASE("SLO: a rate that keeps up and meets every bound is asked again before the search turns away from it") {
  const GoodputOptions options = options_of("ttft<1s");
  const auto step_after = [&](std::int64_t requests, double completed) {
    SloCurve curve{.start = 8, .usual = 1000, .available = 100'000, .probes = {}};
    for (const bool holds : {true, false}) {
      LoadPoint p;
      p.offered = p.measured_offered = holds ? 8 : 12;
      p.completed = holds ? 8 : completed;
      p.requests = holds ? 1000 : requests;
      p.enough_requests = true;
      p.slo = {0.99, -2, 0.1, 0, holds, true};
      curve.add(p);
    }
    return *next_slo_step(curve, options);
  };
  CHECK(step_after(1300, 12).rate == 12);
  CHECK(step_after(1300, 12).requests == 2600);
  CHECK(step_after(1300, 9).rate < 12);   // what falls behind is overloaded
  CHECK(step_after(4000, 12).rate < 12);  // not steady with four times as many either
}

TEST_CASE("SLO: no rate holds above what a run that falls behind serves, however steady it looks") {
  SloCurve curve{.start = 8, .usual = 1000, .available = 100'000, .probes = {}};
  const auto add = [&](double rate, double completed, std::int64_t requests) {
    LoadPoint p;
    p.offered = p.measured_offered = rate;
    p.completed = completed;
    p.requests = p.measured_requests = requests;
    p.enough_requests = true;
    p.stable = completed >= 0.95 * rate;
    p.concurrency = p.outstanding = p.stable ? 20 : 20 + 0.5 * (1 - completed / rate) * static_cast<double>(requests);
    p.slo = {0.99, -2, 0.1, 0, true, true};
    p.slo.holds = completed >= 0.95 * rate;
    curve.add(p);
  };
  add(8, 8, 1000);
  add(10.4, 10, 1000);  // 0.96 of what is offered
  CHECK(curve.probes[1].slo.holds);
  CHECK(std::isinf(curve.served()));
  add(13, 12.2, 300);  // 18 behind, fewer than the 20 in the system: a wave of the queue
  CHECK(std::isinf(curve.served()));
  add(16, 9.5, 500);
  add(12, 10, 1000);  // the longer run tells: 10/s
  CHECK(curve.served() == 10);
  CHECK(curve.probes[0].slo.holds);
  CHECK_FALSE(curve.probes[1].slo.holds);
  CHECK(best_for_slo(curve)->offered == 8);
  add(10.1, 10, 1000);  // 1 % above it is within what a run can tell
  CHECK(best_for_slo(curve)->offered == 10.1);
}

TEST_CASE("SLO: a search with few requests at most ends with verdicts that are open, and says so in its interval") {
  const GoodputOptions options = options_of("ttft<1s");
  SloCurve curve{.start = 5, .usual = 1000, .available = 100'000, .probes = {}};
  const auto add = [&](double rate, bool holds) {
    LoadPoint p;
    p.offered = p.measured_offered = p.completed = rate;
    p.requests = 4000;
    p.enough_requests = true;
    p.slo = {0.9, holds ? -0.01 : 0.01, 0.3, 0, holds, false};
    curve.add(p);
  };
  add(5, true);
  add(5.05, false);
  CHECK(next_slo_step(curve, options)->requests == 8000);
  curve.most = 4000;
  CHECK_FALSE(next_slo_step(curve, options).has_value());
  // The excess rises by 0.02 over ln(5.05 / 5) = 0.00995, so its half width of 0.3 is one of 0.149 of the rate.
  const SloFinding found = slo_finding(curve, options);
  CHECK(found.rate == doctest::Approx(5.025).epsilon(1e-3));
  CHECK(found.low == doctest::Approx(5.025 / 1.149).epsilon(1e-3));
  CHECK(found.high == doctest::Approx(5.025 * 1.149).epsilon(1e-3));
}

TEST_CASE("SLO: where the lowest rate fails for good and a higher one holds, the search goes on below") {
  const GoodputOptions options = options_of("ttft<1s");
  SloCurve curve{.start = 2, .usual = 1000, .available = 100'000, .probes = {}};
  const auto add = [&](double rate, bool holds) {
    LoadPoint p;
    p.offered = p.measured_offered = p.completed = rate;
    p.requests = 50'000;
    p.enough_requests = true;
    p.slo = {0.9, holds ? -0.5 : 0.5, 0.1, 0, holds, true};
    curve.add(p);
  };
  add(2, false);
  add(6, true);
  const auto below = next_slo_step(curve, options);
  REQUIRE(below.has_value());
  CHECK(below->rate < 2);
  // It held at some rate: never is not what was found, even where nothing below holds.
  SloFinding found = slo_finding(curve, options);
  CHECK(found.holds);
  CHECK(found.rate == 6);
  CHECK(found.low == 2);
  CHECK(found.high == 6);
  CHECK(best_for_slo(curve)->offered == 6);
  add(1, true);
  CHECK_FALSE(next_slo_step(curve, options).has_value());
  found = slo_finding(curve, options);
  CHECK(found.rate == 1);
  CHECK(found.low == 1);
  CHECK(found.high == 6);
}

TEST_CASE("SLO: too few recorded requests is an error that says how many are needed") {
  RequestTrace trace = random_trace(400, 5, 1, 1);
  for (Request& r : trace.requests) {
    r.output_tokens = 400;
  }
  SearchTarget target;
  target.policy = "queue";
  target.trace = &trace;
  target.serve = [](const RequestTrace& requests) {
    test::FixedPricer pricer(10_ms);
    ServingOptions serving = test::one_rank(4096);
    serving.max_running_requests = 50;
    return simulate(requests, serving, pricer, {});
  };
  const InputError error =
      error_of<InputError>([&] { search_slo(target, options_of("e2e.mean<10s"), {.rate = 5, .step = 1.5}, {}); });
  check_contains(error.what(), {"400", "too few", "are needed", "longer recording"});
}

}  // namespace epsim
