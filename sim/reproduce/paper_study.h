// A paper's claims as data: the setups of its evaluation, and figures that are worked out from runs of them.
// docs/your-paper.md is the reference of the form.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/reproduce/claim.h"
#include "sim/reproduce/expression.h"
#include "sim/study/goodput_result.h"

namespace epsim {

// What a figure is of several setups.
enum class Over { kMean, kLargest, kSmallest };

struct ClaimFigure {
  std::string what, paper, unit, note;
  ClaimKind kind = ClaimKind::kCalibrated;
  Expression value;
  Over over = Over::kMean;
  std::vector<std::pair<std::string, std::string>> setups;  // each with the one set beside it, or ""
  double low = 0, high = 0;                                 // the tolerance
  bool exact = false;                                       // equal to nine digits after the point
  std::optional<double> no_effect;
  double stated = 0;
  bool told = false;                                       // a miss does not fail the reproduction
  std::vector<std::pair<std::string, Expression>> beside;  // told with it, setup by setup
};

// The policy that `best` stands for: on each setup that with the largest mean over seeds of a metric.
struct BestPolicy {
  MetricOf of;
  std::vector<std::string> policies;
};

// A claim with figures, or with what checks it elsewhere (`held_by`, a file), or why nothing does yet (`open`).
struct PaperClaim {
  std::string id, statement, where, held_by, open;
  bool takes_long = false;  // left out by --quick and --sensitivity
  std::optional<BestPolicy> best;
  std::vector<ClaimFigure> figures;
};

struct PaperSetup {
  std::string name;
  std::filesystem::path scenario;
  std::vector<std::string> set;  // overrides, "key=value"
};

// An input that is changed alone.
struct InputChange {
  std::string input, change, because;
  std::vector<std::string> set;
  std::map<std::string, std::vector<std::string>> set_of;  // by setup
  std::optional<double> k;                                 // of the knee, from the same searches
};

struct PaperStudy {
  std::string name, title;
  std::filesystem::path file;
  std::vector<std::string> set;  // overrides of every setup
  std::vector<PaperSetup> setups;
  std::vector<PaperClaim> claims;
  int seeds = 2;
  GoodputOptions goodput;
  std::vector<std::string> quick_setups, quick_set;
  GoodputOptions quick_goodput;
  double below_knee_share = 0.9;
  std::map<std::string, std::vector<std::string>> below_knee;  // by setup: whose lowest knee sets the rate
  double saturated_rate = 50;                                  // requests/s
  std::vector<std::string> sensitivity_setups;
  std::vector<InputChange> changes;

  const PaperSetup& setup(const std::string& wanted) const;
};

// Throws InputError, naming file, line and key.
PaperStudy read_paper_study(const std::filesystem::path& file);

}  // namespace epsim
