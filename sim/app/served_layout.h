// Tables of served points that others measured: how their rows become scenarios, as a layout file says it.
//
//   scenario: point.yaml                      # what every point begins from; without it the SCENARIO of the command
//   flags: [hardware, conc, gpus, workers]    # columns that say what was measured: rows alike in all are repeats
//   columns: [throughput]                     # others that rules read; rows that differ in them alone are repeats, too
//   derived: {size: "{gpus/workers}"}         # further columns, of those
//   lookup: recipes.csv                       # further columns, of another table: those of its first row that fits
//   groups: {GPU: hardware}                   # columns to group errors by, with their headings
//   in_flight: conc                           # requests in flight
//   measured: {ttft_ms: column, tpot_s: column, e2e_s: [column, column]}   # the first that is there
//   statistic: mean                           # what they are of all requests; the default is median
//   date: date                                # year-month-day
//   rules:                                    # all that apply, in this order
//     - when: {hardware: [h100, h200]}        # a text or several; "h*": those that begin so; "": none
//       since: 2026-01-21                     # of this day or later; rows without a date are of no day
//       before: 2026-05-01                    # of an earlier day
//       set: {cluster.node: DGX-H200, requests.count: "{conc*10}"}
//       note: ...                             # what stands in for what, told with the number of points
//       unexpressed: ...                      # instead: the scenario cannot say this, and why
//       source: ...
//
// A row of the lookup fits where its texts in columns of the layout are the row's, or empty; its other columns become the
// row's, empty where none fits.
//
// {column} is the row's text; {a*b} and {a/b} are rounded to whole numbers. `file` and `run` are columns of their own: the
// table's file, and the row's number from 1.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace epsim::app {

inline constexpr std::array<const char*, 3> kServedMetrics = {"ttft", "tpot", "e2e"};
using ServedFigures = std::array<double, 3>;  // [kServedMetrics] seconds; NaN where there is none

struct ServedRule {
  std::vector<std::pair<std::string, std::vector<std::string>>> when;  // column, texts of which it has one
  double since, before;                                                // days; infinite where the rule does not say
  std::vector<std::pair<std::string, std::string>> set;                // key of the scenario, value
  std::string note, unexpressed;
};

struct ServedMeasure {
  std::vector<std::string> columns;  // the first that has a number counts; none: not measured
  double unit_s = 1;
};

// Rows of another table, told apart by columns that the layout has.
struct ServedLookup {
  std::vector<std::string> keys, names;  // columns that have to fit, and those that it adds
  struct Row {
    std::vector<std::string> keys, texts;  // [keys], [names]
  };
  std::vector<Row> rows;
};

struct ServedLayout {
  std::filesystem::path file;
  std::optional<std::filesystem::path> scenario;
  std::vector<std::string> flags, columns;
  std::vector<std::string> deployment;  // flags that say what was served
  std::vector<std::pair<std::string, std::string>> derived, groups;
  ServedLookup lookup;
  std::string in_flight, date;
  std::array<ServedMeasure, 3> measured;  // [kServedMetrics]
  bool means = false;                     // of all requests; else medians
  std::vector<ServedRule> rules;
};

// Throws InputError; a rule or placeholder that names no column of the layout is one.
ServedLayout read_served_layout(const std::filesystem::path& file);

// What a scenario gave. Nothing in it depends on time, threads or the order of runs.
struct ServedRun {
  std::string error;          // why it was refused; empty: it has figures
  ServedFigures predicted{};  // seconds
  double kv_tokens = 0;       // of a DP rank of the instance that decodes
  double extrapolated = 0;    // share of the time priced outside what was measured
  // Where the TPOT goes, seconds of it: the parts of decode steps, and "prompts", steps with prompts.
  std::vector<std::pair<std::string, double>> tpot_terms;
  std::vector<std::string> stand_ins;  // measurements of other hardware
  bool drafts = false;                 // tokens are drafted
  int prefill_ranks = 0;               // DP ranks that only prefill; 0: prompts and decodes share instances
};

struct ServedPoint {
  int row = 0;                      // of the table, from 1
  std::vector<std::string> flags;   // [ServedLayout::flags]
  std::vector<std::string> groups;  // [ServedLayout::groups]
  double in_flight = 0;             // NaN where the row does not say
  double day = 0;                   // since some day; NaN where the row has no date
  ServedFigures measured{};
  std::vector<std::string> assignments;  // key=value, as --set takes them
  std::vector<std::string> notes;
  std::vector<std::string> reasons;   // why it cannot be expressed; none: it can
  std::optional<ServedRun> run = {};  // run_served()

  bool has_figures() const { return run && run->error.empty(); }
  // Of a point with figures: predicted / measured - 1 of one of kServedMetrics.
  double error(std::size_t metric) const { return run->predicted[metric] / measured[metric] - 1; }
  // Of one with prefill ranks: prompts at each of them on average, by the measured times alone (Little's law).
  double prompts_per_rank() const { return in_flight * measured[0] / measured[2] / run->prefill_ranks; }
};

// Rows of a CSV file, or of JSON lines whose objects' fields are the columns. Throws InputError.
std::vector<ServedPoint> read_served_points(const std::filesystem::path& file, const ServedLayout& layout);
// Whether the file holds JSON lines. Throws InputError for an empty file.
bool is_json_lines(const std::filesystem::path& file);

}  // namespace epsim::app
