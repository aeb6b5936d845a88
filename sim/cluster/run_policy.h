// One policy on one scenario, from plan to result.
#pragma once

#include "sim/cluster/prepare.h"
#include "sim/cluster/run_control.h"
#include "sim/cluster/run_result.h"

namespace epsim {

// The simulation of a prepared run on `requests`, which may differ from the scenario's own in number and arrival. const
// and safe to call for several runs at once.
RunResult run_prepared(const Scenario& scenario, const PreparedRun& prepared, const RequestTrace& requests,
                       const RunControl& control);
// Likewise, of requests that nobody needs afterwards (simulate.h); they may be the scenario's.
RunResult run_prepared(const Scenario& scenario, const PreparedRun& prepared, RequestTrace&& requests,
                       const RunControl& control);

// prepare_run() and run_prepared() on the scenario's requests.
RunResult run_policy(const Scenario& scenario, const PolicyChoice& policy, const RunControl& control);

}  // namespace epsim
