#include "sim/report/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/core/mapped.h"
#include "sim/scenario/compared_policies.h"

namespace epsim {
namespace {

// Rounded down to two significant digits.
double rate_below(double rate) {
  const double unit = std::pow(10.0, std::floor(std::log10(rate)) - 1);
  return std::floor(rate / unit) * unit;
}

std::string overload_text(const Overload& o, std::size_t policies, bool takes_rate) {
  constexpr double kAtOnce = 1000;  // times what is served: a burst, whatever its rate is called
  const bool at_once = o.offered_requests_per_s > kAtOnce * o.most_served_requests_per_s;
  const std::string served = rounded(o.most_served_requests_per_s) + (at_once ? " requests/s" : "");
  const std::string who =
      policies == 1 ? fmt::format("{} are served: this is overload", served)
      : policies == o.policies.size()
          ? fmt::format("at most {} are served: this is overload", served)
          : fmt::format("{} {} at most {}: this is overload for {}", fmt::join(o.policies, ", "),
                        o.policies.size() > 1 ? "serve" : "serves", served, o.policies.size() > 1 ? "them" : "it");
  return fmt::format(
      "{} and {}. Latencies then grow with the length of the run: compare throughput, or ask "
      "`epsim goodput` for the rate that each policy sustains. A rate to try: {}.",
      at_once ? "All requests arrive at once" : rounded(o.offered_requests_per_s) + " requests/s are offered", who,
      takes_rate ? fmt::format("--set requests.rate={:g}/s", o.rate_to_try_requests_per_s)
                 : fmt::format("{:g} requests/s on average", o.rate_to_try_requests_per_s));
}

}  // namespace

Comparison one_seed(std::span<const RunSummary> runs, std::uint64_t seed) {
  Comparison out;
  out.seeds = {seed};
  out.by_policy = mapped(runs, [](const RunSummary& run) { return std::vector{run}; });
  return out;
}

std::vector<double> by_seed(const Comparison& runs, std::size_t policy, const Metric& m) {
  return mapped(runs.by_policy[policy], [&](const RunSummary& run) { return run.numbers[m.index]; });
}

Estimate over_seeds(const Comparison& runs, std::size_t policy, const Metric& m) {
  return estimate(by_seed(runs, policy, m));
}

Estimate difference(const Comparison& runs, std::size_t policy, const Metric& m) {
  return estimate(differences(by_seed(runs, policy, m), by_seed(runs, 0, m)));
}

bool holds_zero(const Estimate& difference) { return std::abs(difference.mean) <= difference.half_width; }

bool is_overloaded(const Comparison& runs, std::size_t policy) {
  return std::any_of(runs.by_policy[policy].begin(), runs.by_policy[policy].end(),
                     [](const RunSummary& run) { return run.flag("overloaded"); });
}

std::string short_run_text(const Comparison& runs) {
  constexpr double kServed = 0.95;
  const double offered = runs.first_seed(0).number("offered_requests_per_s");
  for (std::size_t p = 0; p < runs.by_policy.size(); ++p) {
    const double served = runs.first_seed(p).number("requests_per_s");
    const bool whole = !runs.first_seed(p).flag("interrupted") && runs.first_seed(p).number("failed_requests") == 0;
    if (whole && !is_overloaded(runs, p) && served < kServed * offered) {
      const bool one = runs.by_policy.size() == 1;
      return fmt::format(
          "{}{} of {} requests/s offered are served: the time from the last arrival to the last request's end counts "
          "too. {}{}; where the two stay apart, it is overload.",
          one ? "" : runs.first_seed(p).label + ": ", rounded(served), rounded(offered),
          runs.length_key.empty() ? "Take more of the trace, or a longer one," : "Raise requests." + runs.length_key,
          one ? " to bring the two closer" : " before you compare requests/s");
    }
  }
  return "";
}

std::optional<Overload> overload(const Comparison& runs) {
  const Metric& served = metric("requests_per_s");
  Overload out;
  double least = std::numeric_limits<double>::infinity();
  std::size_t policies = 0;
  for (std::size_t p = 0; p < runs.by_policy.size(); ++p) {
    const bool variant = as_variant(runs.first_seed(p).label).has_value();  // it only splits a gain
    policies += variant ? 0 : 1;
    if (!variant && is_overloaded(runs, p)) {
      const double rate = over_seeds(runs, p, served).mean;
      out.policies.push_back(runs.first_seed(p).label);
      out.most_served_requests_per_s = std::max(out.most_served_requests_per_s, rate);
      least = std::min(least, rate);
    }
  }
  if (out.policies.empty()) {
    return std::nullopt;
  }
  constexpr double kSafe = 0.8;  // short of what is served in overload, where batches are larger than a service wants
  out.offered_requests_per_s = runs.first_seed(0).number("offered_requests_per_s");
  out.rate_to_try_requests_per_s = rate_below(kSafe * least);
  out.text = overload_text(out, policies, runs.takes_rate);
  return out;
}

}  // namespace epsim
