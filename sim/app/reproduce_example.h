// The run that the report of a reproduction shows in detail.
#pragma once

#include <filesystem>

#include "sim/reproduce/craft_evidence.h"

namespace epsim::app {

// Leaves example-run/ in the reproduction's folder: the output of `epsim compare` for the example that the evidence
// gives (craft_example.h), and example_run.csv. It appears whole, and stays as it is when it is there already; without
// an example there is no such folder. Throws StudyInterrupted on Ctrl-C, RunFailed when the disk does not take it.
void keep_example_run(const std::filesystem::path& folder, const CraftEvidence& evidence, PlanCache& plans);

}  // namespace epsim::app
