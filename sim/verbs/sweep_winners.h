// Of a sweep under several policies: which one wins where (sim/report/winner_map.h), and what its parts bring.
#pragma once

#include <optional>

#include "sim/report/winner_map.h"
#include "sim/verbs/sweep_point.h"

namespace epsim {

// Of a goodput sweep: which place sustains the highest rate, of those that are for use, and how sure that is. Empty where
// there is nothing to tell.
std::string best_place(const SweepRequest& request, const ResultTable& results);

// The rates of each combination of the axes but `seed`, requests/s: at the knee or within the SLO of a search, else as
// served. A policy that failed under some seed is named there as such. Nothing with a single policy.
std::optional<WinnerMap> rates_by_place(const SweepRequest& request, const ResultTable& results);

// Without the policies `left_out` (not_for_use()). Nothing where no axis but `seed` varies.
std::optional<WinnerMap> winners_of(WinnerMap rates, const std::vector<std::string>& left_out);

// The table "gains", of a sweep with --split: a row for each part of each policy's gain (sim/report/gain_split.h).
std::optional<ResultTable> gains_of(const WinnerMap& rates);

}  // namespace epsim
