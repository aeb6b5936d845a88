// Reads the section `deployment` of a scenario.
#pragma once

#include <span>
#include <vector>

#include "sim/core/config.h"
#include "sim/scenario/scenario.h"
#include "sim/scheduler/engine_profile.h"

namespace epsim {

// Keys of the section, and of `prefill` and `decode` in it.
std::span<const Key> deployment_keys();
std::span<const Key> pool_keys();

// Whether prefill and decode instances are apart.
bool has_pools(ConfigReader& root);

// Whose rules hold: of the prefill and the decode pool, or of all instances.
std::vector<const EngineProfile*> serving_engines(ConfigReader& root);

// Reads the section `deployment` of a scenario whose other sections have been read. What a pool leaves out is as in the
// scenario's own sections. Throws InputError, also when prompts would have no link to travel by.
DeploymentOptions read_deployment(ConfigReader& root, const Scenario& scenario);

}  // namespace epsim
