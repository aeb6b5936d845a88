#include "sim/verbs/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/core/mapped.h"
#include "sim/report/format.h"
#include "sim/report/metric.h"
#include "sim/report/tables.h"
#include "sim/report/text_table.h"
#include "sim/report/winner_map.h"
#include "sim/verbs/sweep_winners.h"

namespace epsim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostRowsShown = 40;

struct Shown {
  const char* column;
  std::vector<std::string> header;
};

// What the terminal shows of a point, as far as it has it: knees, or rates within an SLO. results.csv has the rest.
const std::vector<Shown>& shown_columns(const SweepRequest& request) {
  static const std::vector<Shown> run{{"requests_per_s", {"requests", "1/s"}},
                                      {"ttft_mean_ms", {"TTFT mean", "ms"}},
                                      {"itl_mean_ms", {"ITL mean", "ms"}},
                                      {"balancedness_mean", {"balanced-", "ness"}},
                                      {"kv_tokens_per_rank", {"KV per rank", "tokens"}}};
  static const std::vector<Shown> goodput{{"slo_requests_per_s", {"meets the SLO", "up to requests/s"}},
                                          {"slo_limit", {"limit", ""}},
                                          {"slo_ttft_p99_ms", {"TTFT p99", "ms"}},
                                          {"slo_tpot_p99_ms", {"TPOT p99", "ms"}},
                                          {"knee_requests_per_s", {"knee", "requests/s"}},
                                          {"knee_limit", {"limit", ""}},
                                          {"knee_ttft_mean_ms", {"TTFT there", "ms"}},
                                          {"saturation_requests_per_s", {"saturation", "requests/s"}},
                                          {"kv_tokens_per_rank", {"KV per rank", "tokens"}}};
  return request.measure == SweepMeasure::kRun ? run : goodput;
}

std::string cell_text(const Cell& cell, Form form = Form::kNumber) {
  const auto* number = std::get_if<double>(&cell);
  return number != nullptr ? shown(form, *number) : text_of(cell).empty() ? "-" : printable(text_of(cell));
}

// As the other verbs write the figure of that name.
Form form_of(const std::string& column) {
  const auto found = std::ranges::find(metrics(), column, &Metric::name);
  return found == metrics().end() ? Form::kNumber : found->form;
}

// The rows of a table that are shown, and how many are not.
std::string rendered(TextTable& table, const std::vector<std::vector<std::string>>& rows, const char* file) {
  const std::size_t shown = std::min(rows.size(), kMostRowsShown);
  for (std::size_t r = 0; r < shown; ++r) {
    table.add_row(rows[r]);
  }
  return table.render(2) + (rows.size() > shown ? fmt::format("  and {} more in {}\n", rows.size() - shown, file) : "");
}

// The columns of a table's leading cells, which are words.
void add_lead(TextTable& table, const ResultTable& of, std::size_t count) {
  for (std::size_t c = 0; c < count; ++c) {
    table.add_column({printable(of.columns[c].name), ""}, Align::kLeft);
  }
}

std::string results_table(const SweepRequest& request, const ResultTable& results) {
  TextTable table;
  std::vector<std::size_t> columns;
  const std::size_t lead = 1 + request.axes.size() + (request.policies.empty() ? 0 : 1);
  for (std::size_t c = 0; c < lead; ++c) {
    table.add_column({printable(results.columns[c].name), ""}, c == 0 ? Align::kRight : Align::kLeft);
    columns.push_back(c);
  }
  for (const Shown& shown : shown_columns(request)) {
    const auto found = std::ranges::find(results.columns, shown.column, &ResultColumn::name);
    if (found != results.columns.end()) {  // absent when every point failed
      table.add_column(shown.header);
      columns.push_back(static_cast<std::size_t>(found - results.columns.begin()));
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::vector<Cell>& result : results.rows) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (const std::size_t c : columns) {
      cells.push_back(c < lead ? printable(text_of(result[c]))
                               : cell_text(result[c], form_of(results.columns[c].name)));
    }
  }
  return rendered(table, rows, "results.csv");
}

// "3.021 +- 0.020" of the three cells from `at` on.
std::string interval_text(const std::vector<Cell>& row, std::size_t at, Form form = Form::kNumber) {
  const double mean = number_of(row[at]), high = number_of(row[at + 2]);
  return std::isfinite(high) ? fmt::format("{} +- {}", shown(form, mean), shown(form, high - mean)) : shown(form, mean);
}

// A row per combination of the axes but `seed`, and policy: means over seeds with their intervals, and the ratio of the
// first figure shown to the first policy's.
std::string intervals_table(const SweepRequest& request, const ResultTable& intervals) {
  const std::size_t lead = request.axes.size() - 1 + (request.policies.empty() ? 0 : 1);
  const bool ratios = request.policies.size() > 1;
  TextTable table;
  add_lead(table, intervals, lead);
  std::vector<Shown> columns;
  for (const Shown& shown : shown_columns(request)) {
    if (std::any_of(intervals.rows.begin(), intervals.rows.end(),
                    [&](const std::vector<Cell>& row) { return text_of(row[lead]) == shown.column; })) {
      table.add_column(shown.header);
      if (ratios && columns.empty()) {
        table.add_column({"times that", "of " + shortened(printable(request.policies.front()), 16)});
      }
      columns.push_back(shown);
    }
  }
  const std::size_t per_policy = columns.size() + (ratios && !columns.empty() ? 1 : 0);
  std::vector<std::vector<std::string>> rows;
  std::vector<Cell> before;
  for (const std::vector<Cell>& row : intervals.rows) {
    const std::vector<Cell> combination(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(lead));
    if (rows.empty() || combination != before) {
      before = combination;
      rows.push_back(mapped(combination, [](const Cell& cell) { return printable(text_of(cell)); }));
      rows.back().resize(lead + per_policy, "-");
    }
    const auto found = std::find_if(columns.begin(), columns.end(),
                                    [&](const Shown& shown) { return text_of(row[lead]) == shown.column; });
    if (found != columns.end()) {
      const auto at = static_cast<std::size_t>(found - columns.begin());
      rows.back()[lead + at + (ratios && at > 0 ? 1 : 0)] = interval_text(row, lead + 2, form_of(found->column));
      if (ratios && at == 0) {
        rows.back()[lead + 1] = interval_text(row, lead + 5);
      }
    }
  }
  return rendered(table, rows, "intervals.csv") +
         "  mean +- 95 % interval (Student's t over seeds); ratios are taken seed by seed\n";
}

// Latencies of points at which more is offered than served do not compare with the others'.
std::string overload_note(const ResultTable& results) {
  const auto column = std::ranges::find(results.columns, "overloaded", &ResultColumn::name);
  if (column == results.columns.end()) {
    return "";
  }
  const auto at = column - results.columns.begin();
  const auto count = std::count_if(results.rows.begin(), results.rows.end(),
                                   [&](const auto& row) { return number_of(row[static_cast<std::size_t>(at)]) == 1; });
  return count == 0 ? ""
                    : fmt::format(
                          "{} of {} points are overloaded: latencies there grow with the length of the run "
                          "(column overloaded of results.csv)\n",
                          count, results.rows.size());
}

const ResultTable* named_table(const SweepOutcome& done, std::string_view name) {
  const auto at = std::ranges::find(done.tables, name, &ResultTable::name);
  return at == done.tables.end() ? nullptr : &*at;
}

// Whether every point has a rate of arrivals and keeps up with it. Of fewer than 100 requests `overloaded` says nothing: that half
// of the rate is served, the last requests' time included, has to do for these.
bool all_keep_up(const ResultTable& results) {
  const auto column = [&](const char* name) {
    const auto at = std::ranges::find(results.columns, name, &ResultColumn::name);
    return at == results.columns.end() ? std::nullopt : std::optional(std::distance(results.columns.begin(), at));
  };
  const auto overloaded = column("overloaded"), offered = column("offered_requests_per_s"),
             served = column("requests_per_s");
  return overloaded && offered && served && std::ranges::all_of(results.rows, [&](const auto& row) {
           const double rate = number_of(row[*offered]);
           return number_of(row[*overloaded]) == 0 && std::isfinite(rate) && 2 * number_of(row[*served]) >= rate;
         });
}

// Where every point keeps up, policies serve alike and none can win by what it serves.
std::string served_alike_text(const ResultTable& results, const ResultTable& winners) {
  const std::size_t gain = winners.columns.size() - 5;
  const bool none = std::ranges::none_of(winners.rows, [&](const auto& row) { return number_of(row[gain]) > 0; });
  return none && all_keep_up(results)
             ? wrapped(
                   "No policy wins by requests/s: no point is overloaded, so what is served follows what is offered. "
                   "Compare TTFT and ITL; the highest rate within an SLO tells policies apart: --measure goodput --slo "
                   "'ttft.p99<2s,tpot.p99<100ms'.",
                   kColumns, 0) +
                   "\n"
             : "";
}

// "+27.9 +- 0.5", of the policy that serves most in each combination.
std::string winners_text(const SweepRequest& request, const ResultTable& results, const ResultTable& winners,
                         bool one_seed) {
  if (std::string alike = served_alike_text(results, winners); !alike.empty()) {
    return alike;
  }
  TextTable table;
  const std::size_t axes = winners.columns.size() - 6, over = axes + 4, failed = axes + 5;
  const bool failures =
      std::ranges::any_of(winners.rows, [&](const auto& row) { return !text_of(row[failed]).empty(); });
  add_lead(table, winners, axes + 1);
  table.add_column({"gain", "%"});
  table.add_column({"over", ""}, Align::kLeft);
  if (failures) {
    table.add_column({"not compared", ""}, Align::kLeft);
  }
  std::vector<std::vector<std::string>> rows;
  for (const std::vector<Cell>& row : winners.rows) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (std::size_t c = 0; c <= axes; ++c) {
      cells.push_back(cell_text(row[c]));
    }
    const double gain = 100 * number_of(row[axes + 1]), high = 100 * number_of(row[axes + 3]);
    cells.push_back(!std::isfinite(gain)  ? "-"
                    : std::isfinite(high) ? fmt::format("{:+.1f} +- {:.1f}", gain, high - gain)
                                          : fmt::format("{:+.1f}", gain));
    cells.push_back(cell_text(row[over]));
    if (failures) {
      cells.push_back(printable(text_of(row[failed])));
    }
  }
  const char* also = !one_seed                                   ? " and its 95 % interval lies above zero"
                     : request.measure == SweepMeasure::kGoodput ? " and more than twice the search's tolerance"
                                                                 : "";
  const std::string rule = fmt::format(
      "a policy wins if it gains more than {:.4g} % in requests/s over the one in `over`{}; of as fast ones that with "
      "most "
      "KV room; where none does, that one stays{}",
      100 * kLeastGain, also,
      one_seed ? ". One seed: a gain may be chance; --vary seed=1,2,3 tells how sure it is." : "");
  return rendered(table, rows, "winners.csv") + wrapped(rule, kColumns, 0) + "\nwinners.svg has the same as a map\n";
}

// "+0.1460 +- 0.0031" of the three cells from `at` on, and "+5.2 +- 0.1", of a share in per cent.
std::string gain_text(const std::vector<Cell>& row, std::size_t at) {
  const double mean = number_of(row[at]), half = number_of(row[at + 2]) - mean;
  return (mean == 0 ? "0" : fmt::format("{:+#.4g}", mean)) + (std::isfinite(half) ? " +- " + rounded(half) : "");
}

std::string share_text(const std::vector<Cell>& row, std::size_t at) {
  const double mean = number_of(row[at]), half = number_of(row[at + 2]) - mean;
  return signed_percent(mean) + (std::isfinite(half) ? " +- " + percent(half) : "");
}

std::string gains_text(const ResultTable& gains) {
  TextTable table;
  const std::size_t lead = gains.columns.size() - 6;
  add_lead(table, gains, lead);
  table.add_columns({{"gain", "requests/s"}, {"of load bal-", "ancing off, %"}});
  std::vector<std::vector<std::string>> rows;
  for (const std::vector<Cell>& row : gains.rows) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (std::size_t c = 0; c < lead; ++c) {
      cells.push_back(printable(text_of(row[c])));
    }
    cells.push_back(gain_text(row, lead));
    cells.push_back(share_text(row, lead + 3));
  }
  return rendered(table, rows, "gains.csv");
}

}  // namespace

std::vector<std::string> columns_of_text(const SweepRequest& request) {
  std::vector<std::string> out{"overloaded", "offered_requests_per_s", "kv_lost_to_copies_share"};
  for (const Shown& shown : shown_columns(request)) {
    out.emplace_back(shown.column);
  }
  return out;
}

std::string sweep_text(const SweepRequest& request, const SweepOutcome& done) {
  const ResultTable& results = done.tables.front();
  const ResultTable *intervals = named_table(done, "intervals"), *winners = named_table(done, "winners"),
                    *gains = named_table(done, "gains");
  const std::string best = best_place(request, results);
  return (intervals != nullptr ? intervals_table(request, *intervals) : results_table(request, results)) +
         overload_note(results) + (best.empty() ? "" : fmt::format("\n{}\n", wrapped(best, kColumns, 0))) +
         (gains != nullptr ? "\n" + gains_text(*gains) : "") +
         (winners != nullptr ? "\n" + winners_text(request, results, *winners, intervals == nullptr) : "");
}

std::string failures_text(const SweepOutcome& done) {
  std::string out;
  for (const std::string& error : done.errors) {
    out += printable(error) + "\n";
  }
  return out + fmt::format("{} of {} points failed; results.csv has the figures or the error of each\n", done.failed,
                           done.points);
}

std::string sweep_json(const SweepRequest& request, const SweepOutcome& done) {
  const std::string best = best_place(request, done.tables.front());
  Json out{{"format", 1}, {"epsim_version", EPSIM_VERSION}, {"points", done.points}, {"failed", done.failed}};
  out["verdict"] = best.empty() ? Json() : Json(best);
  for (const ResultTable& table : done.tables) {
    out[table.name] = json_rows(table);
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace epsim
