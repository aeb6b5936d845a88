// `epsim validate --served`: measured served points, and what epsim predicts for each.
#pragma once

#include <boost/program_options.hpp>

namespace epsim::app {

// --served, --layout and those of a verb that writes a folder.
void add_served_options(boost::program_options::options_description& options);
int validate_served(const boost::program_options::variables_map& values);

}  // namespace epsim::app
