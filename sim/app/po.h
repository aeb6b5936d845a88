// The library of command-line options, by its usual short name.
#pragma once

#include <boost/program_options.hpp>

namespace epsim::app {

namespace po = boost::program_options;

}  // namespace epsim::app
