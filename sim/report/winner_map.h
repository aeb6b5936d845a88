// Which policy to take where: of each combination of a sweep's axes the policy that serves most, as a table and a map.
#pragma once

#include <string>
#include <vector>

#include "sim/report/rate_verdict.h"
#include "sim/report/sweep_table.h"

namespace epsim {

struct WinnerCell {
  std::vector<std::string> place;  // a value of each axis
  // Policies in the order given: the first is what there is without doing anything. None where all failed.
  std::vector<RateChoice> choices;
  std::vector<std::string> failed{};  // policies that have no rate there, so that nothing is compared with them
};

struct WinnerMap {
  std::vector<std::string> axes;
  std::vector<WinnerCell> cells;  // the last axis changes fastest
  RateQuestion question;
};

// Two runs of one configuration within three days differ by 0.35 % in the median (InferenceX, 473 served points of
// DeepSeek-R1): a smaller gain is none, however well seeds agree. What no rate compares with is taken as it is.
inline constexpr double kLeastGain = 0.0035;

// A row a cell: the axes, `winner` (verdict_against_first among the policies that gain more than 0.35 % over the first,
// under one seed more than twice the search's tolerance; the first where none does; empty where all failed), its gain
// over the first policy with its 95 % interval, as shares, and `not_compared`, the policies that failed there.
ResultTable winner_table(const WinnerMap& map);

// The cells of that table as coloured squares with the winner and its gain in %, the last axis across, the others down;
// a star where policies failed.
std::string winner_svg(const WinnerMap& map, const ResultTable& winners);

}  // namespace epsim
