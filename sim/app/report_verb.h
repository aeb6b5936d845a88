// A report as a function, for verbs that end by writing one.
#pragma once

#include <filesystem>
#include <string>

namespace epsim::app {

// The report on `place` (an output folder, or a plan's file) as HTML. Throws InputError when there is nothing to report
// on.
std::string report_of(const std::filesystem::path& place);

}  // namespace epsim::app
