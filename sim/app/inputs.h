// What a run was made from, for the files that record it.
#pragma once

#include "sim/report/json.h"
#include "sim/scenario/scenario.h"

namespace epsim::app {

// Version, seed, resolved scenario, and name, size and content hash of every file that the scenario named.
RunInfo describe_inputs(const Scenario& scenario);

}  // namespace epsim::app
