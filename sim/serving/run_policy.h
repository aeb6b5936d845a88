// One policy on one scenario, from plan to result.
#pragma once

#include "sim/serving/run_control.h"
#include "sim/serving/run_result.h"
#include "sim/serving/scenario.h"

namespace epsim {

// What a policy asks for and whether it fits: everything short of running.
struct PreparedRun {
  PlacementPlan plan;
  Placement placement;
  MemoryBreakdown memory;  // of the fullest GPU
  ServingOptions serving;  // with the KV pool that is left
  Bytes buffers{};         // on every GPU, for weights that a policy brings in by step
};

// The loads that a policy may plan from.
const LoadWindow& planning_window(const Scenario& scenario, const PolicyChoice& policy);

// Plans, checks memory, sizes the KV pool. Throws InputError or DoesNotFit.
PreparedRun prepare_run(const Scenario& scenario, const PolicyChoice& policy);

// The simulation of a prepared run on `requests`, which may differ from the scenario's own in number and arrival. const
// and safe to call for several runs at once.
RunResult run_prepared(const Scenario& scenario, const PolicyChoice& policy, const PreparedRun& prepared,
                       const RequestTrace& requests, const RunControl& control);

// prepare_run() and run_prepared() on the scenario's requests.
RunResult run_policy(const Scenario& scenario, const PolicyChoice& policy, const RunControl& control);

}  // namespace epsim
