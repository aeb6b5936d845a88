// Errors of served points held against those that an earlier version left.
//
// errors.csv of a results folder, or its points.csv, is what later runs are held against:
//   row, group, error_ttft_share, error_tpot_share, error_e2e_share
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sim/app/served_summary.h"

namespace epsim::app {

struct ServedBefore {
  std::string file;
  struct Point {
    std::string group;
    ServedFigures error{};  // [kServedMetrics] predicted / measured - 1; NaN where there was none
  };
  std::map<int, Point> points;  // by row of the table
};

// Throws InputError.
ServedBefore read_served_before(const std::filesystem::path& file);

// A group whose mean error, over the points that both versions have, has grown by kWorsePoints and by kWorseShare of
// itself.
struct ServedWorse {
  std::vector<std::string> labels;
  std::size_t metric = 0;  // kServedMetrics
  int points = 0;
  double before = 0, now = 0;
};
inline constexpr double kWorsePoints = 0.02, kWorseShare = 0.1;

struct ServedHeld {
  int points = 0;  // that both versions have
  int lost = 0;    // that the earlier one had, and this one refuses or cannot express
  std::vector<ServedWorse> worse;
};
ServedHeld hold_served(const ServedBefore& before, const std::vector<ServedPoint>& points);
std::string held_text(const ServedBefore& before, const ServedHeld& held);

// The points of one scenario of each group: the one with the fewest requests in flight.
std::vector<ServedPoint> quick_points(const std::vector<ServedPoint>& points);

ResultTable served_errors_table(const std::vector<ServedPoint>& points);

}  // namespace epsim::app
