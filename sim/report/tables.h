// What the terminal shows at the end of a run: a ranked table of the policies, a block of detail for each, and what the
// comparison comes to. At most 120 columns wide; colour only when the caller says that the output is a terminal.
#pragma once

#include <span>
#include <string>

#include "sim/report/summary.h"

namespace epsim {

struct TableStyle {
  bool colour = false;
};

// One row per run, best first, and the rule of the ranking below.
std::string comparison_table(std::span<const RunSummary> runs, TableStyle style = {});

// One run: requests, tokens, latencies, time by layer part, price origins, balancedness, links, KV pool, memory.
std::string run_detail(const RunSummary& run, TableStyle style = {});

// One paragraph per run after the first, with numbers relative to the first; empty for a single run.
std::string conclusions(std::span<const RunSummary> runs);

}  // namespace epsim
