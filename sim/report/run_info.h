// What the files of a study say of its inputs, told from the scenarios.
#pragma once

#include <span>
#include <string>

#include "sim/report/json.h"
#include "sim/scenario/scenario.h"

namespace epsim {

// `version` of the program, seed, resolved scenario, and name, size and content hash of every file that the scenario
// named. Throws InputError when one of them cannot be read.
RunInfo describe_inputs(const Scenario& scenario, const std::string& version);

// Whether all seeds have the same requests (a recorded trace): then only the routing differs.
bool same_requests(std::span<const Scenario> by_seed);

}  // namespace epsim
