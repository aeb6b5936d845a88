// Several policies under one or more seeds. Under one seed every policy has the same requests and, in steps of the same
// number, the same routing, so differences are taken seed by seed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/report/estimate.h"
#include "sim/report/summary.h"

namespace epsim {

struct Comparison {
  std::vector<std::uint64_t> seeds;                // at least one
  std::vector<std::vector<RunSummary>> by_policy;  // [policy][seed]; the others are compared with the first policy
  bool same_requests = false;                      // under all seeds (a recording): only the routing differs
  bool takes_rate = false;                         // `--set requests.rate` sets how many arrive
  std::string length_key{};                        // of the requests, "count" or "duration"; empty: a recording
  std::vector<std::string> out_of_reach{};         // policies that no deployment can have: ranked after the others

  const RunSummary& first_seed(std::size_t policy) const { return by_policy[policy].front(); }
};
// All of one seed.
Comparison one_seed(std::span<const RunSummary> runs, std::uint64_t seed = 0);

std::vector<double> by_seed(const Comparison& runs, std::size_t policy, const Metric& m);
Estimate over_seeds(const Comparison& runs, std::size_t policy, const Metric& m);
// The policy's figure less the first policy's.
Estimate difference(const Comparison& runs, std::size_t policy, const Metric& m);
// Whether the interval of a difference contains zero; false for a single seed, which has no interval.
bool holds_zero(const Estimate& difference);

// More is offered than some policy serves.
struct Overload {
  double offered_requests_per_s = 0;
  double most_served_requests_per_s = 0;   // by a policy that is overloaded, mean over seeds
  double rate_to_try_requests_per_s = 0;   // 80 % of the least that such a policy serves
  std::vector<std::string> policies = {};  // those that are overloaded under some seed
  std::string text = {};                   // a paragraph that says so
};
std::optional<Overload> overload(const Comparison& runs);
bool is_overloaded(const Comparison& runs, std::size_t policy);
// What to know of requests/s where a policy serves less than is offered and is not known to be overloaded; else empty.
std::string short_run_text(const Comparison& runs);

}  // namespace epsim
