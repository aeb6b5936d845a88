#include "sim/study/branches.h"

#include <algorithm>
#include <cmath>

#include "sim/core/check.h"
#include "sim/study/load_point.h"

namespace epsim {
namespace {

constexpr double kLeastBacklog = 500;   // requests
constexpr double kBacklogFillings = 2;  // times the number in the system at the highest acceptable rate
constexpr double kTtftsApart = 2;       // ratio of the mean TTFTs from which on the start matters
constexpr double kMostMeanwhile = 8;    // requests, for each of the backlog, that come while it is served
constexpr double kReserved = 1.25;      // times the requests that come while it is served
constexpr int kBetween = 2;             // rates between the knee and the saturation throughput

std::vector<LoadPoint>::iterator place_of(std::vector<LoadPoint>& curve, double rate) {
  return std::lower_bound(curve.begin(), curve.end(), rate,
                          [](const LoadPoint& p, double wanted) { return p.offered < wanted; });
}

// Beside as many requests as the search's longest run has, there come those that arrive while the backlog is worked off:
// it is served at the saturation throughput while others come. Of a recording that is too short half of the former must do.
std::optional<LoadPoint> serve_after_backlog(const BranchRuns& runs, const GoodputOptions& options, double rate,
                                             double saturation, std::size_t backlog, std::size_t usual) {
  if (saturation > 0 && saturation - rate < rate / kMostMeanwhile) {
    return std::nullopt;  // the run would look steady while the backlog still shrinks
  }
  const double faster = std::max(saturation - rate, rate / kMostMeanwhile);  // under an SLO nothing tells the former
  const auto meanwhile = static_cast<std::size_t>(kReserved * rate * static_cast<double>(backlog) / faster);
  const RequestTrace requests = runs.first(backlog + meanwhile + usual, rate);
  if (requests.requests.size() < backlog + meanwhile + usual / 2) {
    return std::nullopt;
  }
  const RunResult run = runs.serve(after_backlog(requests, backlog, rate));
  return measure_load_point(run, rate, options, {backlog, meanwhile});
}

}  // namespace

bool outruns_knee(const GoodputSearch& search, const GoodputOptions& options) {
  return !options.count_all && search.knee.rate > 0 && search.saturation * (1 - 1 / options.k) > search.knee.rate;
}

std::vector<double> branch_rates(const GoodputSearch& search, const GoodputOptions& options) {
  std::vector<double> out;
  if (search.best.offered > 0) {
    out.push_back(search.best.offered);
  }
  if (outruns_knee(search, options)) {
    for (int i = 1; i <= kBetween; ++i) {
      out.push_back(search.knee.rate * std::pow(search.saturation / search.knee.rate, 1.0 * i / (kBetween + 1)));
    }
  }
  return out;
}

void add_branches(const BranchRuns& runs, const GoodputOptions& options, GoodputSearch& search) {
  const auto told = [&](const LoadPoint& p) {
    runs.on_load_point(p);
    return p;
  };
  std::size_t most = 0;
  for (const LoadPoint& p : search.curve) {
    most = std::max(most, static_cast<std::size_t>(p.requests));
  }
  const auto backlog =
      static_cast<std::size_t>(std::max(kLeastBacklog, std::ceil(kBacklogFillings * search.best.concurrency)));
  for (const double rate : branch_rates(search, options)) {
    auto empty = place_of(search.curve, rate);
    if (empty == search.curve.end() || empty->offered != rate) {
      const RequestTrace requests = at_rate(runs.first(most, rate), rate);
      empty = search.curve.insert(empty, told(measure_load_point(runs.serve(requests), rate, options)));
    }
    if (const auto after = serve_after_backlog(runs, options, rate, search.saturation, backlog, most)) {
      search.from_backlog.push_back(told(*after));
    }
  }
}

std::optional<bool> BranchPoint::start_matters() const {
  const double a = empty->ttft_s.mean, b = backlog->ttft_s.mean;
  const bool apart = std::max(a, b) > kTtftsApart * std::min(a, b);
  const bool told = apart ? empty_steady || backlog_steady : empty_steady && backlog_steady;
  return told ? std::optional(apart) : std::nullopt;
}

std::vector<BranchPoint> branch_points(const GoodputSearch& search, const GoodputOptions& options) {
  const auto steady = [&](const LoadPoint& p) {
    return p.stable && p.completed >= options.min_completed * p.measured_offered;
  };
  std::vector<BranchPoint> out;
  for (const LoadPoint& p : search.from_backlog) {
    const auto empty = std::ranges::find(search.curve, p.offered, &LoadPoint::offered);
    EPSIM_CHECK(empty != search.curve.end(), "a rate is served from both starts");
    out.push_back({&*empty, &p, steady(*empty), steady(p)});
  }
  return out;
}

}  // namespace epsim
