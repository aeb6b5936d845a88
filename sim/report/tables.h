// What the terminal shows at the end of a run: a ranked table of the policies, a block of detail for each, and what the
// comparison comes to. At most 120 columns wide; colour only when the caller says that the output is a terminal.
#pragma once

#include <string>

#include "sim/report/comparison.h"

namespace epsim {

inline constexpr std::size_t kColumns = 110;      // of a paragraph
inline constexpr std::size_t kLabelColumns = 16;  // of a policy's name

struct TableStyle {
  bool colour = false;
};

// Whether more is offered than served, then one row per policy, best first, and the rule of the ranking below. Over
// several seeds means with 95 % intervals, and below each policy its differences from the first one.
std::string comparison_table(const Comparison& runs, TableStyle style = {});

// One run: requests, tokens, latencies, time by layer part, price origins, balancedness, links, KV pool, memory.
std::string run_detail(const RunSummary& run, TableStyle style = {});

// conclusions() of ranking.h as paragraphs.
std::string conclusion_text(const Comparison& runs);

}  // namespace epsim
