// Tables whose columns are known only when the program runs: those of a sweep, which gathers the figures of many runs.
// Cells are the exact text of a CSV field, so that a figure goes through files without changing.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace epsim {

struct ResultColumn {
  std::string name;
  bool text = false;  // a word; else a number, 1 and 0 for true and false
  bool operator==(const ResultColumn&) const = default;
};

struct ResultTable {
  std::string name;
  std::vector<ResultColumn> columns;
  std::vector<std::vector<std::string>> rows;  // one cell per column; empty = not defined
};

// The columns of a sweep that are neither an axis nor a figure of the run.
inline constexpr std::string_view kPointColumn = "point", kErrorColumn = "error";

// Every figure of a summary.json or goodput.json (as text), one row, under its own key and in the file's order.
// Sections are flattened; an estimate over seeds is its mean; lists, what describes the inputs and ratios to another
// policy are left out. `section` is a JSON pointer to where the figures are ("" = the whole document).
ResultTable figures_of_json(const std::string& name, const std::string& json, const std::string& section);

// A CSV text as CsvTable writes it, without the columns of `dropped`; `text_columns` hold words. Throws InputError when
// a row has not a field for each column.
ResultTable table_of_csv(const std::string& name, const std::string& csv, std::span<const std::string_view> dropped,
                         std::span<const std::string_view> text_columns);

// The rows of `table` at the end of `all`, each after the cells `lead`, whose columns are the first of `all`. Columns
// that `all` does not have yet are added, empty in earlier rows.
void append_rows(ResultTable& all, const std::vector<std::string>& lead, const ResultTable& table);

// The rows as JSON objects by column: numbers as numbers, null where a cell is empty.
nlohmann::ordered_json json_rows(const ResultTable& table);

void write_table_csv(std::ostream& out, const ResultTable& table);

}  // namespace epsim
