// A run in figures: the value of every metric of metric.h, and what comes in lists. Computed once; writers only print.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/domain/cost.h"
#include "sim/domain/step.h"
#include "sim/report/format.h"
#include "sim/report/metric.h"

namespace epsim {

// Steps of one kind, of all instances or of the instances of one pool.
struct StepKindFigures {
  std::string pool;  // "all", or the role of its instances
  StepKind kind = StepKind::kPrefill;
  std::int64_t steps = 0;
  double mean_ms = kUndefined;
  double time_s = 0;
  double share = kUndefined;               // of the step time of the pool
  std::array<double, kLayerParts> part_s;  // of `time_s`
  double straggler_s = 0;
  // Of a part by its name, or of "straggler".
  double seconds(std::string_view name) const;
};

struct InstanceFigures {
  std::string role;
  std::int64_t steps = 0;
  double step_time_s = 0;
  double busy_share = kUndefined;
};

struct RunSummary {
  std::string label;
  std::vector<double> numbers = std::vector<double>(metrics().size(), kUndefined);  // [metric]
  std::vector<std::string> texts = std::vector<std::string>(metrics().size());      // [metric]
  std::vector<StepKindFigures> step_kinds;  // every kind over all instances, then of each pool where there are two
  std::vector<InstanceFigures> instances;
  std::vector<MemoryItem> memory;  // of the fullest GPU; of one that decodes, where others prefill
  std::vector<MemoryItem> prefill_memory;
  std::vector<std::string> warnings;      // settings that the engine would refuse or change
  std::vector<std::string> carried_over;  // what was measured on other hardware, and why that stands in
  bool prefix_cache = false;              // KvStats::prefix_cache

  // By name; all throw std::out_of_range for a name that is not in the table.
  double number(std::string_view name) const { return numbers[metric(name).index]; }
  bool flag(std::string_view name) const { return number(name) == 1; }
  const std::string& text(std::string_view name) const { return texts[metric(name).index]; }
  void set(std::string_view name, double value) { numbers[metric(name).index] = value; }
  bool defined(const Metric& m) const;
};

RunSummary summarize(const RunResult& run);
std::vector<StepKindFigures> step_kinds(const RunResult& run);

// The metrics of a section that a run has: none of them where the section is null.
std::vector<const Metric*> metrics_in(const RunSummary& run, const MetricSection& section);

// A figure as a terminal has it; "-" where it is not defined.
std::string shown(const RunSummary& run, std::string_view name);

// The values of each instance's GPUs, of a value for every GPU of the run or of none.
std::vector<std::span<const double>> by_instance(const RunResult& run, std::span<const double> of_gpus);

// The largest over the mean of an instance's values, in the instance where that is largest: none waits for another's GPUs.
// 1 when all are zero, kUndefined when there is none.
double imbalance(const RunResult& run, std::span<const double> of_gpus);

}  // namespace epsim
