// What a setup and its plans are, before anything is served.
#pragma once

#include "sim/cluster/run_policy.h"
#include "sim/reproduce/craft_evidence.h"

namespace epsim {

// The loads that are planned from, and what CRAFT's step 1 makes of them.
void describe_window(const Scenario& scenario, SetupEvidence& out);

void describe_plan(const PreparedInstance& run, const LoadWindow& window, PolicyEvidence& out);

// [layer] Mean over batches of mean / max GPU load with experts in the order of their numbers, as many on every GPU:
// replayed as CRAFT's step 1 replays its placements.
std::vector<double> balancedness_in_order(const LoadWindow& window, int gpus);

// The window without its batches, which only planning needs: they are most of a scenario's memory.
LoadWindow summed(const LoadWindow& window);

}  // namespace epsim
