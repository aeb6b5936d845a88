// A report: one HTML file that needs nothing but itself. Style, program, the chart library (D3, BSD licence,
// whose text is in the file) and the data are in it; it makes no request, and its content security policy forbids any.
#pragma once

#include <filesystem>
#include <string>

#include "sim/report/html_input.h"

namespace epsim {

// Equal arguments give equal bytes. Text from `input` cannot become markup, whatever it holds. Text that is not UTF-8
// has its bad bytes replaced.
std::string html_report(const ReportInput& input, const std::string& version);

// The same of `place` (an output folder, or a plan's file), with what the catalogue knows of its nodes. Throws InputError
// when there is nothing to report on.
std::string report_of(const std::filesystem::path& place, const std::string& version);

}  // namespace epsim
