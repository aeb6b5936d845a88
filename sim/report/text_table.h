// A table for a terminal: headers of several lines, columns as wide as they need to be, numbers to the right.
#pragma once

#include <string>
#include <vector>

namespace epsim {

enum class Align { kLeft, kRight };

class TextTable {
 public:
  // `header` holds the column's lines, the last one its unit ("" = none).
  void add_column(std::vector<std::string> header, Align align = Align::kRight);
  void add_columns(const std::vector<std::vector<std::string>>& headers, Align align = Align::kRight);
  // As many cells as there are columns.
  void add_row(std::vector<std::string> cells);

  // Every line starts with `indent` spaces; the header ends with a rule. `bold_row` (-1 = none) is set in bold.
  std::string render(std::size_t indent = 0, int bold_row = -1) const;

 private:
  struct Column {
    std::vector<std::string> header;
    Align align;
  };
  std::size_t width_of(std::size_t column) const;
  std::size_t header_lines() const;
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                   std::size_t indent) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace epsim
