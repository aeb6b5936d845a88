// The metrics of a run, each declared once: name, value, which way is better, where it is shown. Unit and definition
// are those of metrics.md, which is compiled into the program. From this table come summary.json and comparison.json,
// comparison.csv and intervals.csv, the columns of a sweep and the terminal's figures. A new metric is a row in
// service_metrics.cpp or system_metrics.cpp, and one in metrics.md.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/run_result.h"

namespace epsim {

enum class Better : std::uint8_t { kNeither, kLower, kHigher };

// How a figure is written. Files keep every digit: a count as an integer, a flag as true or false (1 or 0 in CSV).
enum class Form : std::uint8_t {
  kNumber,       // about four digits on a terminal
  kThreeDigits,  // after the decimal point
  kPercent,      // a share
  kCount,
  kIndex,  // the number of a layer: written like a count, and no mean of it says anything
  kFlag,
  kText
};

// Where a metric is shown besides summary.json, the tables of a sweep and metrics.md. The table of them is in
// metric_rows.cpp.
struct KeyFigure {
  std::string label = {};                  // of its column on the page; "" = none
  std::array<std::string, 3> header = {};  // of its column in the terminal's table, the unit last; "" = none
  std::string title = {};                  // in sentences; compared over seeds; "" = not compared
  std::string change = {};                 // name of its change from the first policy's, a share (`_share`) or a
                                           // difference; "" = none
  bool over_seeds = false;                 // a column of the table over several seeds, which has room for few
  double scale = 1;                        // from the metric's unit to that of `header`
  bool csv = true;                         // a column of comparison.csv
  int place = 0;                           // among the key figures of a terminal's table and of the page
  bool has_column() const { return !header.back().empty(); }
};

struct Metric {
  std::string name;  // ends in its unit; the same in every file
  Form form = Form::kNumber;
  Better better = Better::kNeither;
  std::function<double(const RunResult&)> number = {};      // kUndefined where it has no value
  std::function<std::string(const RunResult&)> words = {};  // of Form::kText, in place of `number`
  KeyFigure key = {.csv = false};                           // shown nowhere else
  std::string section = {};                                 // of summary.json; "" = the top of the document
  std::string unit = {}, text = {};                         // of its definition
  std::size_t index = 0;                                    // in metrics()

  bool is_text() const { return form == Form::kText; }
  bool has_mean() const { return !is_text() && form != Form::kIndex; }
};

// A group of metrics: an object of summary.json.
struct MetricSection {
  std::string_view name;
  bool in_comparison = false;  // comparison.json has it too
  bool may_be_null = false;    // it is null where nothing in it is defined
};

// A row of metrics.md: of a metric, or of any other column or key.
struct Definition {
  std::string name, unit, text;  // the text in Markdown
};

const std::vector<Definition>& definitions();      // in the order of the page
std::span<const MetricSection> metric_sections();  // in the order of summary.json
const std::vector<Metric>& metrics();
std::vector<const Metric*> metrics_of(std::string_view section);
// Throws std::out_of_range for a name that is not in the table.
const Metric& metric(std::string_view name);
// Whether a mean over runs says anything of the column: false for metrics that are indices or text alone.
bool has_mean(std::string_view column);

// In the order of their places: those that the terminal's table, or the page, has a column for.
std::vector<const Metric*> key_columns();
std::vector<const Metric*> page_figures();
// In the order of the table: compared over seeds; those with a change.
std::vector<const Metric*> compared_metrics();
std::vector<const Metric*> changing_metrics();

// A value as a terminal has it; "-" where it is not defined.
std::string shown(Form form, double value);

std::string_view name_of(Better better);  // "lower", "higher", ""

}  // namespace epsim
