#include "sim/report/text_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/core/check.h"
#include "sim/core/mapped.h"
#include "sim/report/format.h"

namespace epsim {
namespace {

constexpr std::string_view kGap = "  ";

std::string padded(const std::string& text, std::size_t width, Align align) {
  const std::string space(width - display_width(text), ' ');
  return align == Align::kLeft ? text + space : space + text;
}

}  // namespace

void TextTable::add_column(std::vector<std::string> header, Align align) {
  EPSIM_CHECK(rows_.empty(), "columns come before rows");
  columns_.push_back({std::move(header), align});
}

void TextTable::add_columns(const std::vector<std::vector<std::string>>& headers, Align align) {
  for (const std::vector<std::string>& header : headers) {
    add_column(header, align);
  }
}

void TextTable::add_row(std::vector<std::string> cells) {
  EPSIM_CHECK(cells.size() == columns_.size(), "a row has one cell per column");
  rows_.push_back(std::move(cells));
}

std::size_t TextTable::width_of(std::size_t column) const {
  std::size_t width = 0;
  for (const std::string& text : columns_[column].header) {
    width = std::max(width, display_width(text));
  }
  for (const auto& row : rows_) {
    width = std::max(width, display_width(row[column]));
  }
  return width;
}

std::size_t TextTable::header_lines() const {
  std::size_t lines = 0;
  for (const Column& column : columns_) {
    lines = std::max(lines, column.header.size());
  }
  return lines;
}

std::string TextTable::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                            std::size_t indent) const {
  std::string out(indent, ' ');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out += i > 0 ? kGap : "";
    out += padded(cells[i], widths[i], columns_[i].align);
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

std::string TextTable::render(std::size_t indent, int bold_row) const {
  std::vector<std::size_t> widths;
  std::size_t total = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths.push_back(width_of(i));
    total += widths.back() + (i > 0 ? kGap.size() : 0);
  }
  std::string out;
  for (std::size_t l = 0; l < header_lines(); ++l) {
    const auto cell = [l](const Column& column) { return l < column.header.size() ? column.header[l] : ""; };
    out += line(mapped(columns_, cell), widths, indent) + "\n";
  }
  out += std::string(indent, ' ');
  for (std::size_t i = 0; i < total; ++i) {
    out += "─";
  }
  out += "\n";
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const bool bold = static_cast<int>(r) == bold_row;
    out += fmt::format("{}{}{}\n", bold ? "\033[1m" : "", line(rows_[r], widths, indent), bold ? "\033[0m" : "");
  }
  return out;
}

}  // namespace epsim
