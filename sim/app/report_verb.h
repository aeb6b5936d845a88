// A report as a function, for verbs that end by writing one.
#pragma once

#include <filesystem>

namespace epsim::app {

// Writes the report on `place` (an output folder, or a plan's file) to `target`. Throws InputError when there is
// nothing to report on, or when the target exists and `overwrite` is not set.
void write_report(const std::filesystem::path& place, const std::filesystem::path& target, bool overwrite);

}  // namespace epsim::app
