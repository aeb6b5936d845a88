// Branches on a queue that is known by hand: one server, FIFO, an idle TTFT of 1 s, Poisson arrivals. Once 400 requests
// wait it takes them in step, two a second in place of one, and goes on so until it has been idle for a minute, which a
// queue at the rates asked here is not (idle times are exponential with a mean below 2 s). By Pollaczek and Khinchine
// (goodput_test.cpp) the mean TTFT is D + rho D / (2 (1 - rho)) with D = 1 s from empty, D = 0.5 s after a backlog.
#include "sim/study/branches.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "sim/core/rng.h"
#include "sim/study/goodput.h"
#include "sim/study/goodput_store.h"
#include "sim/study/load_point.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

constexpr double kAloneS = 1, kInStepS = 0.5;  // D
constexpr std::size_t kWaitingInStep = 400;

double mean_ttft(double rate, double service) {
  const double rho = rate * service;
  return service + rho * service / (2 * (1 - rho));
}

RequestTrace poisson_arrivals(std::size_t requests) {
  RandomStream arrivals(Seed{1}, "branches");
  RequestTrace trace{"queue", {}};
  Seconds at{};
  for (std::size_t i = 0; i < requests; ++i) {
    at += Seconds{arrivals.exponential(1.0)};
    trace.requests.push_back({to_ticks(at), 1, 1});
  }
  return trace;
}

// `waiting_in_step`: so many waiting requests bring the server into step; none of a trace do where it is larger.
RunResult serve_queue(const RequestTrace& trace, std::size_t waiting_in_step) {
  RunResult run;
  double free = 0;
  bool in_step = false;
  std::size_t arrived = 0;
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const double arrival = to_seconds(trace.requests[i].arrival).count(), start = std::max(arrival, free);
    while (arrived < trace.requests.size() && to_seconds(trace.requests[arrived].arrival).count() <= start) {
      ++arrived;
    }
    in_step = (in_step && arrival - free <= 60) || arrived - i >= waiting_in_step;
    free = start + (in_step ? kInStepS : kAloneS);
    RequestRecord r;
    r.state = RequestState::kCompleted;
    r.input_tokens = r.output_tokens = 1;
    r.arrival = trace.requests[i].arrival;
    r.first_token = r.finished = to_ticks(Seconds{free});
    run.requests.push_back(r);
  }
  return run;
}

SearchTarget queue_in_step(const RequestTrace& trace, std::size_t waiting_in_step) {
  SearchTarget target;
  target.policy = "queue";
  target.trace = &trace;
  target.longer = [](std::size_t n) { return std::make_shared<const RequestTrace>(poisson_arrivals(n)); };
  target.serve = [waiting_in_step](const RequestTrace& requests) { return serve_queue(requests, waiting_in_step); };
  return target;
}

GoodputSearch searched(const SearchTarget& target) {
  GoodputOptions options;
  options.sensitivity = {};
  options.branches = true;
  GoodputSearch out = search_goodput(target, options, {}, {});
  const auto first = [&](std::size_t n, double) {
    return n > target.trace->requests.size() ? *target.longer(n) : first_of(*target.trace, n);
  };
  add_branches({target.serve, first, [](const LoadPoint&) {}}, options, out);
  return out;
}

}  // namespace

TEST_CASE("where a backlog brings a queue into step, rates are served from both starts and told apart") {
  // 1000 requests: from empty at up to 1.53/s no more than 1000 - 1000 / 1.53 = 350 come to wait. Means over 1000 or
  // fewer requests in queues of up to 76 % load are off by up to a quarter.
  const RequestTrace trace = poisson_arrivals(1000);
  const GoodputSearch found = searched(queue_in_step(trace, kWaitingInStep));
  GoodputOptions options;
  CHECK(found.saturation == doctest::Approx(2).epsilon(0.01));
  CHECK(found.knee.rate < 1);
  CHECK(outruns_knee(found, options));
  const std::vector<double> rates = branch_rates(found, options);
  REQUIRE(rates.size() == 3);
  CHECK(rates[0] == found.best.offered);
  CHECK(rates[1] / found.knee.rate == doctest::Approx(std::cbrt(found.saturation / found.knee.rate)));
  CHECK(rates[2] / rates[1] == doctest::Approx(rates[1] / found.knee.rate));
  const std::vector<BranchPoint> points = branch_points(found, {});
  REQUIRE(points.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(points[i].empty->offered == rates[i]);
    CHECK(points[i].empty->backlog == 0);
    CHECK(points[i].backlog->backlog == 500);  // twice what a queue near its knee holds is less
    CHECK(points[i].backlog->stable);
    CHECK(points[i].backlog->ttft_s.mean == doctest::Approx(mean_ttft(rates[i], kInStepS)).epsilon(0.25));
    CHECK(points[i].start_matters() == true);
    CHECK(points[i].empty->stable == (i == 0));  // past 1/s the queue grows
  }
}

TEST_CASE("where nothing depends on the start, the knee alone is asked after a backlog, and is the same") {
  const RequestTrace trace = poisson_arrivals(20'000);
  const GoodputSearch found = searched(queue_in_step(trace, 1'000'000));
  CHECK_FALSE(outruns_knee(found, {}));  // the knee is at 8 / 9 of the capacity, past 1 - 1 / 5 of it
  const std::vector<BranchPoint> points = branch_points(found, {});
  REQUIRE(points.size() == 1);
  CHECK(points[0].empty->offered == found.best.offered);
  CHECK(points[0].start_matters() == false);
}

TEST_CASE("aligned searches and short runs have one start") {
  const RequestTrace trace = poisson_arrivals(1000);
  SearchTarget target = queue_in_step(trace, kWaitingInStep);
  GoodputOptions options;
  options.sensitivity = {};
  options.tolerance = 0.1;
  options.branches = true;
  SearchTarget aligned = target;
  aligned.aligned = true;
  const std::vector<GoodputSearch> found = search_all({target, aligned}, options, {});
  CHECK_FALSE(found[0].from_backlog.empty());
  CHECK(found[1].from_backlog.empty());
  CHECK(found[1].knee.rate == found[0].knee.rate);
  target.protocol_requests = 200;
  test::check_contains(test::error_of<InputError>([&] { search_all({target}, options, {}); }).what(),
                       {"branches", "Remove --branches"});
}

TEST_CASE("both runs unsteady, or one of them and alike, tell nothing") {
  LoadPoint empty, backlog;
  const auto told = [&](double from_empty, bool steady, double after, bool steady_after) {
    empty.ttft_s.mean = from_empty;
    backlog.ttft_s.mean = after;
    return BranchPoint{&empty, &backlog, steady, steady_after}.start_matters();
  };
  CHECK(told(10, true, 4, true) == true);
  CHECK(told(4, true, 10, true) == true);
  CHECK(told(10, false, 4, true) == true);
  CHECK(told(10, true, 6, true) == false);
  CHECK(told(10, false, 6, true) == std::nullopt);
  CHECK(told(10, false, 4, false) == std::nullopt);
}

TEST_CASE("the last requests of a trace are its backlog, and what comes when it is worked off counts") {
  RequestTrace trace{"t", {}};
  for (int i = 0; i < 220; ++i) {
    trace.requests.push_back({to_ticks(Seconds{2.0 * i}), i + 1, 1});
  }
  const RequestTrace after = after_backlog(trace, 20, 1.0);
  REQUIRE(after.requests.size() == 220);
  CHECK(after.requests[0].arrival == Ticks{});
  CHECK(after.requests[19].arrival == Ticks{});
  CHECK(after.requests[0].input_tokens == 201);
  CHECK(after.requests[20].input_tokens == 1);
  CHECK(to_seconds(after.requests[119].arrival).count() == doctest::Approx(99));
  // Worked off at 50 s, for which those wait that have come, 50; the 150 after them wait for 1 s.
  RunResult run, falling;
  for (std::size_t i = 0; i < after.requests.size(); ++i) {
    RequestRecord r;
    r.state = RequestState::kCompleted;
    r.input_tokens = r.output_tokens = 1;
    r.arrival = after.requests[i].arrival;
    const double at = to_seconds(r.arrival).count();
    r.first_token = r.finished = to_ticks(Seconds{at < 50 ? 50 : at + 1});
    run.requests.push_back(r);
    r.first_token = r.finished = to_ticks(Seconds{at + 30 - at / 8});
    falling.requests.push_back(r);
  }
  const LoadPoint told = measure_load_point(run, 1.0, {}, {20, 50});
  CHECK(told.backlog == 20);
  CHECK(told.ttft_s.mean == doctest::Approx(1));
  CHECK(told.stable);
  CHECK(told.measured_requests <= 120);  // 15 at either end do not count
  // TTFT falls from 30 s to 5 s: a backlog is still worked off; without one nothing grows.
  CHECK_FALSE(measure_load_point(falling, 1.0, {}, {20, 0}).stable);
  falling.requests.erase(falling.requests.begin(), falling.requests.begin() + 20);
  CHECK(measure_load_point(falling, 1.0, {}).stable);
}

}  // namespace epsim
