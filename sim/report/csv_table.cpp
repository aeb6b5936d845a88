#include "sim/report/csv_table.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "sim/core/check.h"
#include "sim/core/text.h"
#include "sim/domain/step.h"

namespace epsim {

namespace {
constexpr std::size_t kBufferBytes = 1 << 16;
}

CsvTable::CsvTable(std::ostream& out, std::span<const std::string_view> columns) : out_(out), columns_(columns.size()) {
  for (const std::string_view name : columns) {
    text(name);
  }
  end_row();
}

void CsvTable::separate() {
  if (field_++ > 0) {
    buffer_ += ',';
  }
}

CsvTable& CsvTable::raw(std::string_view value) {
  separate();
  buffer_ += value;
  return *this;
}

CsvTable& CsvTable::text(std::string_view value) {
  if (value.find_first_of(",\"\r\n") == std::string_view::npos) {
    return raw(value);
  }
  return raw("\"" + replaced(value, "\"", "\"\"") + "\"");
}

CsvTable& CsvTable::integer(std::int64_t value) {
  separate();
  fmt::format_to(std::back_inserter(buffer_), "{}", value);
  return *this;
}

CsvTable& CsvTable::number(double value) {
  separate();
  if (std::isfinite(value)) {
    fmt::format_to(std::back_inserter(buffer_), "{}", value);
  }
  return *this;
}

void CsvTable::end_row() {
  EPSIM_CHECK(field_ == columns_, "a row has one field per column");
  buffer_ += '\n';
  field_ = 0;
  if (buffer_.size() >= kBufferBytes) {
    flush();
  }
}

void CsvTable::flush() {
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
}

std::vector<std::string> part_columns(std::vector<std::string> before, std::string_view unit,
                                      const std::vector<std::string>& after) {
  for (const std::string_view part : kLayerPartNames) {
    before.push_back(fmt::format("{}_{}", part, unit));
  }
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

}  // namespace epsim
