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

// The key figures by their place in the terminal's table and on the page, then those that have a place in neither:
// label on the page, header on the terminal, title in sentences, name of the change.
const std::vector<std::pair<std::string_view, KeyFigure>>& key_figure_table() {
  static const std::vector<std::pair<std::string_view, KeyFigure>> all{
      {"requests_per_s", {"Served", {"", "served", "req/s"}, "throughput", "requests_per_s_change_share", true}},
      {"ttft_mean_ms", {"TTFT mean", {"TTFT", "mean", "ms"}, "mean TTFT", "ttft_mean_change_share", true}},
      {"ttft_p99_ms", {"TTFT p99", {"TTFT", "p99", "ms"}, "p99 TTFT", "", true}},
      {"itl_mean_ms", {"ITL mean", {"ITL", "mean", "ms"}, "mean ITL", "itl_mean_change_share", true}},
      {"tpot_mean_ms", {"", {"TPOT", "mean", "ms"}, "mean TPOT"}},
      {"itl_p99_ms", {"ITL p99"}},
      {"e2e_mean_ms", {"End to end", {"E2E", "mean", "s"}, "mean end-to-end", "e2e_mean_change_share", true, 1e-3}},
      {"output_tokens_per_s_per_gpu", {"Output tokens per GPU", {"output", "tokens", "/s/GPU"}, "output tokens"}},
      {"balancedness_mean", {"Balance", {"balanced-", "ness", "mean/max"}, "balancedness", "", true}},
      {"straggler_share", {"Waiting for the slowest"}},
      {"kv_tokens_per_rank", {"KV room per rank", {"KV pool", "tokens", "/rank"}, "", "kv_tokens_change_share"}},
      {"kv_pool_gib_per_gpu", {"", {"KV pool", "GiB", "/GPU"}}},
      {"kv_lost_to_copies_share", {"", {"lost to", "extras", "%"}}},
      {"kv_peak_use_share", {"KV peak use"}},
      {"interrupted", {}},
      {"completed_requests", {}},
      {"kv_copies_gib_per_gpu", {.change = "copies_change_gib_per_gpu", .csv = false}}};
  return all;
}

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
      const auto defined = std::ranges::find(definitions(), out[i].name, &Definition::name);
      EPSIM_CHECK(defined != definitions().end(), "metrics.md has a row for " + out[i].name);
      out[i].unit = defined->unit;
      out[i].text = defined->text;
      out[i].index = i;
    }
    int place = 0;
    for (const auto& [name, key] : key_figure_table()) {
      const auto row = std::ranges::find(out, name, &Metric::name);
      EPSIM_CHECK(row != out.end(), "the metrics have a row for " + std::string(name));
      row->key = key;
      row->key.place = key.has_column() || !key.label.empty() ? ++place : 0;
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
