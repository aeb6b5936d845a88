#include "sim/report/metric_rows.h"

#include <algorithm>
#include <utility>

#include "sim/core/check.h"

// Made by EpsimEmbed.cmake.
namespace epsim::embedded {
std::span<const std::pair<std::string_view, std::string_view>> metric_definitions();
}

namespace epsim {
namespace {

constexpr MetricSection kSections[] = {{"", true},
                                       {"requests", true},
                                       {"throughput", true},
                                       {"latency", true},
                                       {"step", true},
                                       {"balancedness", true},
                                       {"kv", true},
                                       {"kv_transfers", true},
                                       {"rebalance", true, true},
                                       {"lost_gpus", true, true},
                                       {"time_by_part"},
                                       {"straggler"},
                                       {"time_by_origin"},
                                       {"busiest_link", false, true},
                                       {"dispatch_bottleneck", false, true},
                                       {"combine_bottleneck", false, true},
                                       {"conservation"}};

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

// Of the rows "| `name` | unit | text |".
std::vector<Definition> read_definitions(std::string_view page) {
  std::vector<Definition> out;
  for (std::size_t at = 0, end = 0; at < page.size(); at = end + 1) {
    end = std::min(page.find('\n', at), page.size());
    const std::string_view line = page.substr(at, end - at);
    const std::size_t name_end = line.find("` |"), unit_end = line.find(" |", name_end + 3);
    if (line.starts_with("| `") && name_end != line.npos && unit_end != line.npos) {
      const std::size_t text_end = line.find_last_of('|');
      out.push_back({std::string(line.substr(3, name_end - 3)),
                     trimmed(line.substr(name_end + 3, unit_end - name_end - 3)),
                     trimmed(line.substr(unit_end + 2, text_end - unit_end - 2))});
    }
  }
  return out;
}

}  // namespace

std::span<const MetricSection> metric_sections() { return kSections; }

const std::vector<Definition>& definitions() {
  static const std::vector<Definition> all = read_definitions(embedded::metric_definitions().front().second);
  return all;
}

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = [] {
    MetricRows out;
    add_service_metrics(out);
    add_system_metrics(out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto defined = std::find_if(definitions().begin(), definitions().end(),
                                        [&](const Definition& d) { return d.name == out[i].name; });
      EPSIM_CHECK(defined != definitions().end(), "metrics.md has a row for " + out[i].name);
      out[i].unit = defined->unit;
      out[i].text = defined->text;
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
