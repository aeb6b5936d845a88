// Of a sweep under several policies: who wins where (sim/report/winner_map.h).
#pragma once

#include <optional>

#include "sim/report/winner_map.h"
#include "sim/verbs/sweep_point.h"

namespace epsim {

// By requests/s: at the knee or within the SLO of a search, else as served. A policy that failed or cannot serve a
// combination is left out there. Nothing with a single policy, or no axis but `seed`.
std::optional<WinnerMap> winners_of(const SweepRequest& request, const ResultTable& results);

}  // namespace epsim
