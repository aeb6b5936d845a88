// Tables whose columns are known only when the program runs: those of a sweep, which gathers the figures of many runs,
// and those of a goodput study.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/report/summary.h"

namespace epsim {

struct ResultColumn {
  std::string name;
  bool text = false;  // a word; else a number, 1 and 0 for true and false
  bool operator==(const ResultColumn&) const = default;
};

// A number (kUndefined: not defined), or text: a word, or a value of an axis as it was typed.
using Cell = std::variant<double, std::string>;
std::string text_of(const Cell& cell);  // as CSV has it: every digit, empty when not defined
double number_of(const Cell& cell);     // kUndefined for text that is not a number

struct ResultTable {
  std::string name;
  std::vector<ResultColumn> columns;
  std::vector<std::vector<Cell>> rows;  // one cell per column

  void add_numbers(const std::vector<std::string>& names) { add_columns(names, false); }
  void add_words(const std::vector<std::string>& names) { add_columns(names, true); }

 private:
  void add_columns(const std::vector<std::string>& names, bool text);
};

// The columns of a sweep that are neither an axis nor a figure of the run.
inline constexpr std::string_view kPointColumn = "point", kErrorColumn = "error";

// The metrics of a run in the order of summary.json, in one row; without those of sections that are null there.
ResultTable metric_table(const std::string& name, const RunSummary& run);

// The table without the columns of `dropped`.
ResultTable without_columns(const ResultTable& table, std::span<const std::string_view> dropped);

// The rows of `table` at the end of `all`, each after the cells `lead`, whose columns are the first of `all`. Columns
// that `all` does not have yet are added, empty in earlier rows.
void append_rows(ResultTable& all, const std::vector<Cell>& lead, const ResultTable& table);

// The rows as JSON objects by column: numbers as numbers, null where a cell is empty.
nlohmann::ordered_json json_rows(const ResultTable& table);

std::string table_csv(const ResultTable& table);

}  // namespace epsim
