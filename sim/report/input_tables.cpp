#include "sim/report/input_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <string_view>

#include "sim/core/refuse.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

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

}  // namespace

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

void check_table(const fs::path& file) {
  const auto table = std::ranges::find(tables(), file.filename().string(), &TableColumns::file);
  if (table != tables().end()) {
    read_rows(file, *table, [](const std::vector<double>&) {});
  }
}

}  // namespace epsim
