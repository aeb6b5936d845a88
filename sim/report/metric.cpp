#include "sim/report/metric.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/report/format.h"
#include "sim/report/metric_rows.h"

namespace epsim {
namespace {

constexpr MetricSection kSections[] = {
    {"", "", true},
    {"requests", "Counts of requests and tokens.", true},
    {"throughput", "Rates over `duration_s`.", true},
    {"latency", "Latencies of completed requests.", true},
    {"step", "In `summary.json`: the steps as a whole. In `steps.csv`: number of the step in its instance, from 0.",
     true},
    {"balancedness", "Balance over the run.", true},
    {"kv", "The KV pool. All DP ranks have the same.", true},
    {"kv_transfers", "Keys and values that went from prefill to decode instances; not part of the links' bytes.", true},
    {"rebalance", "Plans made while the run went on; null where the policy has no `rebalance`.", true, true},
    {"lost_gpus", "What became of experts when GPUs went or came back; null where none did.", true, true},
    {"time_by_part", "Step time by layer part, all layers. The parts sum to the step time."},
    {"straggler", "Time lost to waiting."},
    {"time_by_origin", "Step time by the origin of its prices. The origins sum to the step time."},
    {"busiest_link",
     "The link with the highest use over the run; of several equal ones the first; `null` without links.", false, true},
    {"dispatch_bottleneck",
     "In `summary.json`: the link that set the time of the most dispatch seconds, over all layers; `null` when nothing "
     "moved. In `layers.csv`: its name for that layer; empty when nothing moved.",
     false, true},
    {"combine_bottleneck", "The same for combine.", false, true},
    {"conservation", "What went in and what came out; each pair agrees in an accepted run."}};

template <class Wanted>
std::vector<const Metric*> select(Wanted wanted) {
  std::vector<const Metric*> out;
  for (const Metric& m : metrics()) {
    if (wanted(m)) {
      out.push_back(&m);
    }
  }
  return out;
}

std::vector<const Metric*> by_place(std::vector<const Metric*> all) {
  std::sort(all.begin(), all.end(), [](const Metric* a, const Metric* b) { return a->key.place < b->key.place; });
  return all;
}

}  // namespace

std::span<const MetricSection> metric_sections() { return kSections; }

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = [] {
    MetricRows out;
    add_service_metrics(out);
    add_system_metrics(out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i].index = i;
    }
    return out;
  }();
  return all;
}

std::vector<const Metric*> metrics_of(std::string_view section) {
  return select([&](const Metric& m) { return m.section == section; });
}

const Metric& metric(std::string_view name) {
  const std::vector<Metric>& all = metrics();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Metric& m) { return m.name == name; });
  if (found == all.end()) {
    throw std::out_of_range("no metric of a run has the name " + std::string(name));
  }
  return *found;
}

std::vector<const Metric*> key_columns() {
  return by_place(select([](const Metric& m) { return m.key.has_column(); }));
}
std::vector<const Metric*> page_figures() {
  return by_place(select([](const Metric& m) { return !m.key.label.empty(); }));
}
std::vector<const Metric*> compared_metrics() {
  return select([](const Metric& m) { return !m.key.title.empty(); });
}
std::vector<const Metric*> changing_metrics() {
  return select([](const Metric& m) { return !m.key.change.empty(); });
}

std::string shown(Form form, double value) {
  switch (form) {
    case Form::kThreeDigits:
      return fixed(value, 3);
    case Form::kPercent:
      return percent(value);
    case Form::kCount:
      return std::isfinite(value) ? grouped(std::llround(value)) : "-";
    default:
      return rounded(value);
  }
}

std::string_view name_of(Better better) {
  return better == Better::kLower ? "lower" : better == Better::kHigher ? "higher" : "";
}

}  // namespace epsim
