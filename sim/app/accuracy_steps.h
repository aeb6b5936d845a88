// A row of `epsim validate --accuracy`, and those about whole steps of published systems: their times, what a policy or an overlap
// gains, and how uneven the loads are. Keys: experiments/validation/facts.yaml.
#pragma once

#include <functional>
#include <string>

#include "sim/cluster/plan_cache.h"
#include "sim/core/config.h"

namespace epsim::app {

// One line of the table. `outside`: the reason why the row is shown but not held to its band.
struct AccuracyRow {
  std::string group, what;
  std::string unit = "ms";
  double predicted = 0, measured = 0;
  double band = 0;  // of |predicted / measured - 1|
  std::string note, outside;
  double error() const { return predicted / measured - 1; }
  bool inside() const { return error() <= band && error() >= -band; }
};

// The keys that every row has: what, measured (`key`), band, source, note, outside. Calls finish(). The prediction is
// still to be made.
AccuracyRow read_accuracy_row(ConfigReader& in, const std::string& group, const std::string& key = "measured_ms");

// Completes a row that is read; rows may be completed side by side.
using CompleteRow = std::function<AccuracyRow()>;
// `plans` must outlive what they return.
CompleteRow step_row(ConfigReader in, PlanCache& plans);
CompleteRow gain_row(ConfigReader in, PlanCache& plans);
CompleteRow loads_row(ConfigReader in, PlanCache& plans);

}  // namespace epsim::app
