// A finished sweep in words: tables for the terminal, the object of --json.
#pragma once

#include <string>

#include "sim/verbs/sweep_run.h"

namespace epsim {

// A row for each point, or over several seeds for each combination of the other axes; of a goodput sweep also which
// combination sustains the highest rate.
std::string sweep_text(const SweepRequest& request, const SweepOutcome& done);
// The columns that sweep_text() needs, for SweepControl::shown.
std::vector<std::string> columns_of_text(const SweepRequest& request);
// The first errors of points that failed, and how many there are.
std::string failures_text(const SweepOutcome& done);
// All tables by name, and the verdict.
std::string sweep_json(const SweepRequest& request, const SweepOutcome& done);

}  // namespace epsim
