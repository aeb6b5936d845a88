// `epsim validate --served`: measured served points, and what epsim predicts for each.
#pragma once

#include "sim/app/po.h"

namespace epsim::app {

// --served, --layout and those of a verb that writes a folder.
void add_served_options(po::options_description& options);
int validate_served(const po::variables_map& values);

}  // namespace epsim::app
