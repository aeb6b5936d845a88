// The report on an output folder, with what the catalogue knows of its nodes.
#pragma once

#include <filesystem>
#include <string>

namespace epsim {

// The report on `place` (an output folder, or a plan's file) as HTML. Throws InputError when there is nothing to report
// on.
std::string report_of(const std::filesystem::path& place, const std::string& version);

}  // namespace epsim
