#include "sim/report/metric_rows.h"

#include <utility>

namespace epsim {
namespace {

constexpr MetricSection kSections[] = {
    {"", "", true},
    {"requests", "Counts of requests and tokens.", true},
    {"throughput", "Rates over `duration_s`.", true},
    {"latency", "Latencies of completed requests; ITL of all tokens that were handed out.", true},
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

void add_rows(MetricRows& rows, std::string_view section, MetricRows more) {
  for (Metric& row : more) {
    row.section = section;
    rows.push_back(std::move(row));
  }
}

Seconds duration_of(const RunResult& run) {
  return run.measured().empty() ? Seconds{} : to_seconds(run.end - run.measured().front().arrival);
}

Seconds whole_duration_of(const RunResult& run) {
  return run.requests.empty() ? Seconds{} : to_seconds(run.end - run.requests.front().arrival);
}

LinkUse busiest_link(const RunResult& run) {
  const double duration = whole_duration_of(run).count();
  LinkUse out;
  for (const LinkTotals& link : run.detail.links) {
    const double use = ratio(link.bytes.count(), link.rate.count() * duration);
    if (use > 0 && (out.name.empty() || use > out.share)) {  // none where nothing was carried
      out = {link.name, use};
    }
  }
  return out;
}

}  // namespace epsim
