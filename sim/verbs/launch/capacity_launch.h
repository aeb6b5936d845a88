// How to run a recommended deployment: commands of its engine, an example for Kubernetes, files with its experts' places.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/study/capacity.h"

namespace epsim {

// File names and what they hold: launch.sh, leaderworkerset.yaml and, for a policy with a plan that the engine can load,
// experts-ROLE.json or .yaml. Throws what planning throws.
std::vector<std::pair<std::string, std::string>> launch_files(const CapacityQuestion& question,
                                                              const CapacityOption& option);

}  // namespace epsim
