// The test of a search for a steady state: how often it takes a steady series for a rising one, and how often it finds
// one that does rise. Steady series are those whose neighbours are alike, as a queue's are.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "sim/core/rng.h"
#include "sim/core/statistics.h"
#include "sim/study/load_point.h"

namespace epsim {
namespace {

constexpr int kSeries = 2000;

std::vector<double> means_of_parts(const std::vector<double>& values, std::size_t parts) {
  std::vector<double> out;
  for (std::size_t p = 0; p < parts; ++p) {
    RunningStats part;
    for (std::size_t i = p * values.size() / parts; i < (p + 1) * values.size() / parts; ++i) {
      part.add(values[i]);
    }
    out.push_back(part.mean());
  }
  return out;
}

// x' = rho x + noise around 100, from its steady state on: deviation 1.
std::vector<double> autoregressive(std::size_t count, double rho, RandomStream& random) {
  std::vector<double> out(count);
  double x = random.normal();
  for (double& value : out) {
    value = 100 + x;
    x = rho * x + std::sqrt(1 - rho * rho) * random.normal();
  }
  return out;
}

// Times in an M/M/1 queue, in units of the service: Lindley's recursion. Where there is a steady state, from it on: the
// wait is 0 with chance 1 - load, else exponential of mean 1 / (1 - load). Else from an empty queue.
std::vector<double> queue_times(std::size_t count, double load, RandomStream& random) {
  std::vector<double> out(count);
  double wait = load < 1 && random.uniform() < load ? random.exponential(1 / (1 - load)) : 0;
  for (double& value : out) {
    value = wait + random.exponential(1.0);
    wait = std::max(0.0, value - random.exponential(1 / load));
  }
  return out;
}

// Share of series that seem to rise. `max_drift` 0: by the trend alone, which is to be 2.5 % of steady ones.
template <class Series>
double alarms(double max_drift, const Series& series) {
  int found = 0;
  for (int i = 0; i < kSeries; ++i) {
    RandomStream random(Seed{20}, "drift", static_cast<std::uint64_t>(i));
    found += drifts(means_of_parts(series(random), 40), max_drift) ? 1 : 0;
  }
  return static_cast<double>(found) / kSeries;
}

// The same by the means of the two halves, each of five parts: Welch's t at 95 %.
template <class Series>
double blind_alarms(const Series& series) {
  int found = 0;
  for (int i = 0; i < kSeries; ++i) {
    RandomStream random(Seed{20}, "drift", static_cast<std::uint64_t>(i));
    const std::vector<double> parts = means_of_parts(series(random), 10);
    RunningStats first, second;
    for (std::size_t p = 0; p < 10; ++p) {
      (p < 5 ? first : second).add(parts[p]);
    }
    const double growth = second.mean() - first.mean();
    const double error = std::sqrt((first.variance() + second.variance()) / 5);
    found += growth > 0.25 * first.mean() && growth > student_t_95(8) * error ? 1 : 0;
  }
  return static_cast<double>(found) / kSeries;
}

// Of 2000 series 2.5 % are 50, with a deviation of 7: four of them are 1.4 %.
constexpr double kNominal = 0.025, kSlack = 0.014;

}  // namespace

TEST_CASE("a steady series seems to rise once in 40, however alike its neighbours are") {
  for (const double rho : {0.0, 0.5, 0.9}) {
    CAPTURE(rho);
    const double found = alarms(0, [&](RandomStream& random) { return autoregressive(1000, rho, random); });
    MESSAGE("AR(1), rho ", rho, ": ", found);
    CHECK(std::abs(found - kNominal) < kSlack);
  }
}

TEST_CASE("a queue that keeps up seems to rise no more often, where parts taken as independent misfire") {
  // Times in a queue at load r are alike over (2 + 5 r - 4 r^2 + r^3) / ((2 - r) (1 - r)^2) requests (Daley 1968): 82 at
  // 80 %, 363 at 90 %. So these say as much as 6, 49 and 11 requests that know nothing of each other.
  struct Row {
    double load;
    std::size_t requests;
  };
  for (const Row& row : {Row{0.8, 500}, Row{0.8, 4000}, Row{0.9, 4000}}) {
    CAPTURE(row.load);
    CAPTURE(row.requests);
    const auto series = [&](RandomStream& random) { return queue_times(row.requests, row.load, random); };
    const double found = alarms(0, series), grown = alarms(0.25, series);
    MESSAGE("M/M/1: ", found, ", by more than a quarter ", grown, ", parts as independent ", blind_alarms(series));
    CHECK(found < kNominal + kSlack);
    CHECK(grown <= found);
  }
  // As much as 3: still less than half of what a test of two halves makes of it.
  const auto few = [](RandomStream& random) { return queue_times(1000, 0.9, random); };
  MESSAGE("M/M/1 at 90 %, 1000 requests: ", alarms(0.25, few), ", parts as independent ", blind_alarms(few));
  CHECK(alarms(0.25, few) < 0.05);
  CHECK(blind_alarms(few) > 0.07);
}

TEST_CASE("a queue that is offered more than it serves is found") {
  // 10 % too much: after n requests they wait for n / 10 services, against a deviation of about sqrt(2 n): 100 and 45 of
  // 1000, 400 and 89 of 4000.
  for (const auto& [count, least] : {std::pair{std::size_t{1000}, 0.8}, std::pair{std::size_t{4000}, 0.98}}) {
    const std::size_t requests = count;
    CAPTURE(requests);
    const auto series = [&](RandomStream& random) { return queue_times(requests, 1.1, random); };
    MESSAGE("M/M/1 at 110 %: ", alarms(0.25, series), ", parts as independent ", blind_alarms(series));
    CHECK(alarms(0.25, series) > least);
  }
}

}  // namespace epsim
