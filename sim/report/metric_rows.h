// Who fills the metric table, and figures of a run that several of its rows, or a file's rows, need.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/report/format.h"
#include "sim/report/metric.h"

namespace epsim {

using MetricRows = std::vector<Metric>;

void add_rows(MetricRows& rows, std::string_view section, MetricRows more);
void add_service_metrics(MetricRows& rows);
void add_system_metrics(MetricRows& rows);

// First arrival to last event, without the warm-up of a closed loop and with it; zero when there is no request.
Seconds duration_of(const RunResult& run);
Seconds whole_duration_of(const RunResult& run);

struct LinkUse {
  std::string name;           // empty when the run has no links
  double share = kUndefined;  // bytes / (data-sheet rate x duration)
};
LinkUse busiest_link(const RunResult& run);  // the first of several equal ones

}  // namespace epsim
