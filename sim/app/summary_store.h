// A run's figures as JSON that reads back to the bit: what is kept of runs of a comparison.
#pragma once

#include <optional>
#include <string>

#include "sim/report/summary.h"

namespace epsim::app {

// Label and metrics; not what comes in lists, which is shown of the first seed alone.
std::string stored_text(const RunSummary& run);
// Nothing when the text is damaged, of another layout or of another table of metrics.
std::optional<RunSummary> stored_summary(const std::string& text);

}  // namespace epsim::app
