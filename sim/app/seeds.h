// --seeds: a scenario under several seeds.
#pragma once

#include <string>
#include <vector>

#include "sim/app/po.h"
#include "sim/scenario/scenario.h"

namespace epsim::app {

void add_seeds_option(po::options_description& options, int fallback);

// The scenario under each seed that --seeds asks for, from its own on; `assignments` count beside those of --set. Throws
// InputError.
std::vector<Scenario> scenarios_by_seed(const po::variables_map& values, const std::vector<std::string>& labels,
                                        const std::vector<std::string>& assignments = {});

}  // namespace epsim::app
