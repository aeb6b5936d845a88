#include "sim/report/html_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sim/core/config_json.h"
#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/report/goodput_writer.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

// Values of columns, under their names.
using Columns = std::vector<std::pair<std::string, std::vector<double>>>;

// The CSV files of an output folder are checked before a report is made from them.

// Columns without which a section of the report cannot be drawn.
struct TableColumns {
  std::string_view file;
  std::vector<std::string_view> numbers, texts = {};
};

const std::vector<TableColumns>& tables() {
  static const std::vector<TableColumns> all = {
      {"curve.csv", {"stable"}},
      {"goodput.csv", {}, {"policy"}},
      {"gpus.csv", {"gpu", "load_over_mean"}},
      {"intervals.csv", {}},
      {"layer_gpu.csv", {"layer", "gpu", "assignments"}},
      {"layer_steps.csv", {"layer", "first_step", "balancedness_mean"}},
      {"layers.csv", {"layer"}},
      {"links.csv", {"utilisation_of_steps_share"}, {"link"}},
      {"memory.csv", {"gpu", "memory_gib"}, {"memory_item"}},
      {"requests.csv", {"request", "ttft_ms", "tpot_ms", "e2e_ms"}},
      {"results.csv", {"point"}, {"error"}},
      {"sensitivity.csv", {"value_before", "value_after"}},
      {"series.csv",
       {"start_s", "running_requests", "queued_requests", "kv_use_share", "output_tokens_per_s", "ttft_mean_ms"}},
      {"setups.csv", {"value"}, {"setup", "policy", "study", "metric"}},
      {"step_kinds.csv", {}}};
  return all;
}

// RFC 4180, row by row.
class CsvRows {
 public:
  explicit CsvRows(const fs::path& file) : file_(file.string()), in_(file, std::ios::binary) {
    refuse_if(!next(), place(), "this file is empty; it is damaged.");
    names_ = fields_;
  }

  bool next() {
    at_ += lines_;
    lines_ = 0;
    fields_.assign(1, "");
    for (bool quoted = false; (lines_ == 0 || quoted) && std::getline(in_, text_); ++lines_) {
      refuse_if(in_.eof(), {file_, at_ + lines_, ""}, "the last line has no end; the file is cut short.");
      split(quoted);
    }
    if (lines_ > 0 && !names_.empty() && fields_.size() != names_.size()) {
      throw InputError(place(), fmt::format("this row has {} fields, the header {}; the file is damaged.",
                                            fields_.size(), names_.size()));
    }
    return lines_ > 0;
  }

  std::size_t column(std::string_view name) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    refuse_if(found == names_.end(), {file_, 1, std::string(name)},
              "the header has no such column; the file is damaged, or not an output of epsim.");
    return static_cast<std::size_t>(found - names_.begin());
  }

  // NaN where the field is empty: a figure that is not defined.
  double number(std::size_t column) const {
    const std::string& field = fields_[column];
    double out = std::numeric_limits<double>::quiet_NaN();
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), out);
    const bool whole = error == std::errc{} && end == field.data() + field.size() && std::isfinite(out);
    if (!field.empty() && !whole) {
      throw InputError({file_, at_, names_[column]},
                       fmt::format("`{}` is not a number; the file is damaged.", field.substr(0, 40)));
    }
    return out;
  }

 private:
  // Adds the line's fields; `quoted`: whether it begins, and ends, inside a quoted one.
  void split(bool& quoted) {
    if (quoted) {
      fields_.back() += '\n';
    }
    for (std::size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '"' && quoted && i + 1 < text_.size() && text_[i + 1] == '"') {
        fields_.back() += text_[++i];
      } else if (text_[i] == '"') {
        quoted = !quoted;
      } else if (text_[i] == ',' && !quoted) {
        fields_.emplace_back();
      } else {
        fields_.back() += text_[i];
      }
    }
  }
  InputPlace place() const { return {file_, at_, ""}; }

  std::string file_, text_;
  std::ifstream in_;
  std::vector<std::string> names_, fields_;
  int at_ = 1, lines_ = 0;  // the line on which the row begins, and how many it takes
};

// Reads the rows; `each` gets the numbers of the columns that are drawn.
template <class Each>
void read_rows(const fs::path& file, const TableColumns& table, const Each& each) {
  CsvRows rows(file);
  std::vector<std::size_t> columns;
  for (const std::string_view name : table.numbers) {
    columns.push_back(rows.column(name));
  }
  for (const std::string_view name : table.texts) {
    rows.column(name);
  }
  std::vector<double> numbers(columns.size());
  while (rows.next()) {
    std::transform(columns.begin(), columns.end(), numbers.begin(),
                   [&](std::size_t column) { return rows.number(column); });
    each(numbers);
  }
}

// The latencies in a run's requests.csv that are defined, in ms. Throws InputError where the file is damaged.
Columns request_latencies(const fs::path& file, std::size_t& rows) {
  const TableColumns& table = *std::ranges::find(tables(), "requests.csv", &TableColumns::file);
  Columns out;
  for (auto name = table.numbers.begin() + 1; name != table.numbers.end(); ++name) {
    out.emplace_back(*name, std::vector<double>{});
  }
  rows = 0;
  read_rows(file, table, [&](const std::vector<double>& numbers) {
    ++rows;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (std::isfinite(numbers[1 + i])) {  // a request that got no token has none
        out[i].second.push_back(numbers[1 + i]);
      }
    }
  });
  return out;
}

// Throws InputError where a table that epsim writes under this file's name is cut short, has a row of another length, lacks
// a column that the report draws, or text in one of numbers. Tables that it does not write pass.
void check_table(const fs::path& file) {
  const auto table = std::ranges::find(tables(), file.filename().string(), &TableColumns::file);
  if (table != tables().end()) {
    read_rows(file, *table, [](const std::vector<double>&) {});
  }
}

using Json = nlohmann::ordered_json;

constexpr int kMostDepth = 3;    // folders below the one given
constexpr int kKnownFormat = 1;  // goodput.json is read in kGoodputFormat too
constexpr std::string_view kPlanFormat = "epsim-plan-v1";

// A folder with one of these is an output.
constexpr std::string_view kDocuments[] = {"capacity.json", "claims.json",  "comparison.json", "goodput.json",
                                           "served.json",   "summary.json", "sweep.json"};
constexpr std::string_view kTables[] = {"curve.csv",       "goodput.csv",     "gpus.csv",       "intervals.csv",
                                        "layer_gpu.csv",   "layer_steps.csv", "layers.csv",     "links.csv",
                                        "memory.csv",      "resolved.yaml",   "results.csv",    "setups.csv",
                                        "sensitivity.csv", "series.csv",      "step_kinds.csv", "verdict.txt"};

template <class Names>
bool holds(const Names& names, const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Json parse(const fs::path& file, const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, text.size()));
    throw InputError({file.string(), 1 + static_cast<int>(std::count(text.begin(), end, '\n')), ""},
                     "this is not valid JSON; the file is damaged, or not an output of epsim.");
  }
}

void check_document(const fs::path& file, const std::string& text) {
  const Json json = parse(file, text);
  const Json format = json.is_object() && json.contains("format") ? json.at("format") : Json(nullptr);
  const bool of_slo = file.filename() == "goodput.json" && format == kGoodputFormat;
  refuse_if(format != kKnownFormat && !of_slo, {file.string(), 0, "format"},
            fmt::format("{} is not a format that this program reads; it reads {}.", format.dump(), kKnownFormat));
}

// A plan by its first bytes, whatever it is called: looked at before reading, as other files may be large.
bool begins_as_plan(const fs::path& file) {
  std::string head(256, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  return head.starts_with('{') && head.find(kPlanFormat) != std::string::npos;
}

void check_plan(const fs::path& file, const std::string& text) {
  const Json json = parse(file, text);
  for (const char* key : {"policy", "num_gpus", "num_layers", "num_experts", "balancedness_before",
                          "balancedness_after", "logcnt", "memory_per_gpu_bytes"}) {
    refuse_if(!json.contains(key), {file.string(), 0, key}, "this key is required in a plan and missing.");
  }
}

std::vector<double> even_quantiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t count = std::min(values.size(), kQuantiles);
  std::vector<double> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(values[count == 1 ? 0 : i * (values.size() - 1) / (count - 1)]);
  }
  return out;
}

// Of an output folder: other CSV files and scenarios may have these names where it holds more than outputs.
bool is_output(const fs::path& folder) {
  return std::ranges::any_of(kDocuments, [&](std::string_view name) { return fs::exists(folder / name); });
}

// Of a run: as many requests as its summary states.
Columns latency_quantiles(const fs::path& file) {
  std::size_t rows = 0;
  Columns out = request_latencies(file, rows);
  const fs::path summary = file.parent_path() / "summary.json";
  const Json document = parse(summary, read_file(summary));
  const Json stated =
      document.is_object() ? document.value(Json::json_pointer("/requests/offered_requests"), Json()) : Json();
  if (stated.is_number() && stated != rows) {
    throw InputError({file.string(), static_cast<int>(rows) + 1, ""},
                     fmt::format("the file has {} requests, summary.json {}; it is damaged, or of another run.", rows,
                                 stated.dump()));
  }
  for (auto& [name, values] : out) {
    values = even_quantiles(std::move(values));
  }
  return out;
}

void check_scenario(const fs::path& file, const std::string& text) {
  const Json json = yaml_as_json(text, file.string());
  refuse_if(!json.is_object(), {file.string(), 1, ""},
            text.empty() ? "this file is empty; it is damaged." : "this is no scenario; the file is damaged.");
}

class Collector {
 public:
  explicit Collector(fs::path root) : root_(std::move(root)) {}

  void folder(const fs::path& place, int depth) {
    std::vector<fs::path> entries;
    for (const auto& entry : fs::directory_iterator(place)) {
      if (entry.path().filename().string().front() != '.') {
        entries.push_back(entry.path());
      }
    }
    std::sort(entries.begin(), entries.end());
    for (const fs::path& entry : entries) {
      if (fs::is_directory(entry)) {
        if (depth < kMostDepth) {
          folder(entry, depth + 1);
        }
      } else if (fs::is_regular_file(entry)) {
        file(entry);
      }
    }
  }

  void file(const fs::path& entry) {
    const std::string name = entry.filename().string();
    if (name == "requests.csv") {
      if (!fs::exists(entry.parent_path() / "summary.json")) {
        return;
      }
      out_.quantiles.push_back({path_of(entry.parent_path()), latency_quantiles(entry)});
      return;
    }
    const bool document = holds(kDocuments, name);
    const bool plan = !document && !holds(kTables, name) && begins_as_plan(entry);
    if (!document && !holds(kTables, name) && !plan) {
      return;
    }
    if (fs::file_size(entry) > kMostReportFileBytes || bytes_ + fs::file_size(entry) > kMostReportBytes) {
      out_.left_out.push_back(
          fmt::format("{} is not in this report: it takes {} MB.", path_of(entry), fs::file_size(entry) / 1'000'000));
      return;
    }
    const std::string text = read_file(entry);
    if (document) {
      check_document(entry, text);
    }
    if (name.ends_with(".csv") && is_output(entry.parent_path())) {
      check_table(entry);
    }
    if (name == "resolved.yaml" && is_output(entry.parent_path())) {
      check_scenario(entry, text);
    }
    if (plan) {
      check_plan(entry, text);
      out_.plans.push_back(path_of(entry));
    }
    found_ = found_ || plan || document;
    bytes_ += text.size();
    out_.files.push_back({path_of(entry), text});
  }

  bool found() const { return found_; }
  ReportInput take() { return std::move(out_); }

 private:
  std::string path_of(const fs::path& entry) const {
    const std::string path = entry.lexically_relative(root_).generic_string();
    return path == "." ? "" : path;
  }

  fs::path root_;
  ReportInput out_;
  std::uintmax_t bytes_ = 0;
  bool found_ = false;
};

}  // namespace

ReportInput read_report_input(const fs::path& place) {
  std::error_code ignored;
  refuse_if(!fs::exists(place, ignored), {place.string(), 0, ""}, "there is no such folder or file.");
  const bool one_file = !fs::is_directory(place, ignored);
  const fs::path full = fs::absolute(place).lexically_normal();
  const fs::path clean = full.has_filename() ? full : full.parent_path();  // "out/" is called "out"
  refuse_if(one_file && holds(kDocuments, clean.filename().string()), {place.string(), 0, ""},
            "this is one file of an output; name its folder.");
  Collector collector(one_file ? clean.parent_path() : clean);
  if (one_file) {
    collector.file(clean);
  } else {
    collector.folder(clean, 0);
  }
  refuse_if(fs::exists(clean / "reproduce.json", ignored) && !fs::exists(clean / "claims.json", ignored),
            {place.string(), 0, ""}, "this reproduction is not finished; rerun the command that began it to continue.");
  refuse_if(!collector.found(), {place.string(), 0, ""},
            one_file ? "this is not a plan of `epsim plan`; name its file, or the folder of another verb."
                     : "there is nothing to report on: no capacity.json, claims.json, comparison.json, goodput.json, "
                       "served.json, summary.json, sweep.json and no plan is in this folder.");
  ReportInput out = collector.take();
  out.title = clean.filename().string();
  return out;
}

}  // namespace epsim
