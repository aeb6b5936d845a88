// The options of a goodput search on the command line, for every verb that searches.
#pragma once

#include <string>

#include "sim/app/po.h"
#include "sim/study/goodput_result.h"

namespace epsim::app {

// --k, --slo, --tolerance, --sensitivity, --rates, --warmup, --drain, --min-completed, --max-drift and
// --min-requests-ratio.
void add_goodput_options(po::options_description& options);

// Their values, checked. Throws InputError, naming the option.
GoodputOptions read_goodput_options(const po::variables_map& values);

// Throws InputError where an option of the knee is given, which `slo` replaces.
void refuse_knee_options(const po::variables_map& values, const std::string& slo);

}  // namespace epsim::app
