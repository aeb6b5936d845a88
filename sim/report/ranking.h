// Which of several policies serves a scenario best, and what each costs against the first.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/comparison.h"

namespace epsim {

inline constexpr double kEqualThroughput = 0.01;
inline constexpr std::string_view kRankingRule =
    "Ranked by completed requests/s, highest first; runs within 1 % of the best of their group count as equal and are "
    "ranked by mean end-to-end latency, lowest first, then in the order given.";

// The same, with the policies that are bounds.
std::string ranking_rule(const Comparison& runs);

// Whether no deployment can have the policy; variants, which only split a gain, are told apart by their labels.
bool is_bound(const Comparison& runs, std::size_t policy);

// Positions of the policies, best first, as kRankingRule says of their means over seeds. One that completed nothing
// comes last; after all of them, ranked alike, bounds, and then variants.
std::vector<std::size_t> rank_policies(const Comparison& runs);
// The same without variants, unless there is no split of a gain that stands for them.
std::vector<std::size_t> shown_policies(const Comparison& runs);

// A metric of a run against the first run's, as its KeyFigure::change says: run / first - 1 (not defined when the
// first's is not, or is zero), or run - first.
double change(const Metric& m, const RunSummary& first, const RunSummary& run);

// What a policy gains against the first and what it costs in KV cache, in words with numbers; one paragraph. A
// difference whose interval contains zero is told as none. Where one of the two is overloaded, their latencies are not
// compared.
std::string conclusion(const Comparison& runs, std::size_t policy);

// A conclusion for every policy after the first, and how sure they are; empty for a single policy.
std::vector<std::string> conclusions(const Comparison& runs);

}  // namespace epsim
