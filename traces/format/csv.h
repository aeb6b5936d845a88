// Comma-separated tables with a header line, read row by row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/format/text_input.h"

namespace epsim {

// Fields are split at commas; one in double quotes may hold commas and doubled quotes, but no line break. Rows that are
// empty are passed over. Errors name the file, the line and the column.
class CsvReader {
 public:
  // Reads the header; an input without one is an error.
  explicit CsvReader(ByteInput& input);

  const std::vector<std::string>& header() const { return header_; }
  std::optional<std::size_t> find_column(std::string_view name) const;
  // Throws, listing the columns there are, when `name` is none of them.
  std::size_t column(std::string_view name) const;

  // The next row, which must have as many fields as the header; false at the end.
  bool next();
  std::string_view text(std::size_t column) const { return fields_[column]; }
  std::int64_t integer(std::size_t column) const;  // a whole number in [-2^63, 2^63)
  double number(std::size_t column) const;         // finite
  int line_number() const { return lines_.line_number(); }
  InputPlace place(std::size_t column) const { return lines_.place(header_[column]); }
  [[noreturn]] void fail(std::size_t column, const std::string& problem) const;

 private:
  void split(std::string_view line);

  LineReader lines_;
  std::vector<std::string> header_;
  std::vector<std::string_view> fields_;
  std::string unquoted_;  // backs the fields that were in quotes
};

// The whole of `text` as a number; nothing when it is not one (or is out of range, NaN or infinite).
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_number(std::string_view text);

}  // namespace epsim
