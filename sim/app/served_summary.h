// Predicted beside measured served points: errors by group, the noise under them, and what could not be expressed.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "sim/app/served_layout.h"
#include "sim/report/sweep_table.h"

namespace epsim::app {

// Of predicted / measured - 1 over points; median, mean and 90th percentile of its size, bias with its sign.
struct ServedErrors {
  int points = 0;
  double median = 0, mean = 0, p90 = 0, bias = 0;
};
ServedErrors served_errors(const std::vector<double>& errors);

struct ServedGroup {
  std::vector<std::string> labels;  // of the layout's groups; then of the requests in flight, where it is split by them
  std::array<ServedErrors, 3> errors;  // [kServedMetrics]
};

// How much points that are alike in all flags differ from the one measured before them, at most kRepeatDays ago.
struct ServedNoise {
  int pairs = 0;
  double median = 0, p90 = 0;
  // The least mean error over all points of predictions that know the flags and not the day.
  double least_mean = 0;
};
inline constexpr double kRepeatDays = 3;
inline constexpr double kPromptsUnsaturated = 1;

// The one term of a metric that, scaled by `factor` or with `added_s` more a request or token, leaves the least mean
// error: where to look first. No price is changed by it.
struct ServedHint {
  std::vector<std::string> labels;  // of the layout's groups
  std::size_t metric = 0;           // kServedMetrics
  std::string term;                 // empty: a constant
  double factor = 1, added_s = 0;
  double mean_now = 0, mean_then = 0;
  std::vector<std::pair<std::string, double>> shares;  // of the predicted TPOT, mean over points, largest first
};

struct ServedCount {
  std::string text;
  int points = 0, alone = 0;  // `alone`: nothing else keeps them from being expressed
};

struct ServedSummary {
  std::vector<std::string> headings;
  bool means = false;                                       // of all requests; else medians
  int points = 0, expressed = 0, scenarios = 0, exact = 0;  // `exact`: expressed without a stand-in
  std::vector<ServedCount> unexpressed, stand_ins;          // most points first
  std::array<ServedNoise, 3> noise;
  ServedGroup all;
  std::vector<ServedGroup> groups;
  // By what shares an instance and whether tokens are drafted; none where all points are of one kind. Prefill apart is
  // also summed without the points whose prefill ranks had more than kPromptsUnsaturated prompts each.
  std::vector<ServedGroup> kinds;
  std::vector<ServedHint> hints;  // none for a group of fewer than three different scenarios: every term fits
  std::vector<std::pair<std::string, double>> shares;  // of the predicted TPOT over all points, the largest first
};

// Its group and the range of its requests in flight.
std::vector<std::string> served_labels(const ServedPoint& point);

ServedSummary summarise_served(const ServedLayout& layout, const std::vector<ServedPoint>& points);

// A row a point: flags, measured and predicted figures, errors, terms of the TPOT, why it has none.
ResultTable served_table(const ServedLayout& layout, const std::vector<ServedPoint>& points);
ResultTable served_groups_table(const ServedSummary& summary);
std::string served_text(const ServedSummary& summary, const ResultTable& points);
std::string served_json(const ServedSummary& summary, const ResultTable& points);

}  // namespace epsim::app
