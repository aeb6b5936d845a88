// Rows of `epsim validate --accuracy` about whole steps of published systems: their times, what a policy or an overlap
// gains, and how uneven the loads are. Keys: experiments/validation/facts.yaml.
#pragma once

#include "sim/app/accuracy.h"
#include "sim/core/config.h"

namespace epsim::app {

// The keys that every row has: what, measured (`key`), band, source, note, outside. Calls finish().
AccuracyRow read_accuracy_row(ConfigReader& in, const std::string& group, double predicted,
                              const std::string& key = "measured_ms");

AccuracyRow step_row(ConfigReader in);
AccuracyRow gain_row(ConfigReader in);
AccuracyRow loads_row(ConfigReader in);

}  // namespace epsim::app
