// Writes one CSV file row by row, through a buffer of bounded size.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace epsim {

class CsvTable {
 public:
  CsvTable(std::ostream& out, std::initializer_list<std::string_view> columns)
      : CsvTable(out, std::span(columns.begin(), columns.size())) {}
  CsvTable(std::ostream& out, const std::vector<std::string>& columns)
      : CsvTable(out, std::vector<std::string_view>(columns.begin(), columns.end())) {}
  CsvTable(std::ostream& out, std::span<const std::string_view> columns);
  ~CsvTable() { flush(); }
  CsvTable(const CsvTable&) = delete;
  CsvTable& operator=(const CsvTable&) = delete;

  CsvTable& text(std::string_view value);  // quoted when it holds a comma, a quote or a line break
  CsvTable& integer(std::int64_t value);
  CsvTable& number(double value);         // shortest text that reads back the same; empty when not finite
  CsvTable& raw(std::string_view value);  // a number that is already text
  CsvTable& empty() { return raw({}); }
  CsvTable& integer_if(bool known, std::int64_t value) { return known ? integer(value) : empty(); }
  void end_row();  // checks that the row has a field for each column

 private:
  void separate();
  void flush();

  std::ostream& out_;
  std::string buffer_;
  std::size_t columns_, field_ = 0;
};

// `before`, a column for the time of each layer part, `after`. The unit is the columns' ending.
std::vector<std::string> part_columns(std::vector<std::string> before, std::string_view unit,
                                      const std::vector<std::string>& after);

}  // namespace epsim
