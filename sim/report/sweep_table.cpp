#include "sim/report/sweep_table.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/core/check.h"
#include "sim/core/mapped.h"
#include "sim/core/text.h"
#include "sim/report/csv_table.h"
#include "sim/report/format.h"

namespace epsim {
namespace {

using Json = nlohmann::ordered_json;

const Cell kEmpty = kUndefined;

// Whole numbers as integers, as CSV has them.
Json json_of(const Cell& cell, bool is_text) {
  if (const auto* number = std::get_if<double>(&cell)) {
    constexpr double kExact = 1e15;
    return std::abs(*number) < kExact && *number == std::round(*number) ? Json(std::llround(*number)) : Json(*number);
  }
  const std::string& text = std::get<std::string>(cell);
  const Json typed = is_text ? Json() : Json::parse(text, nullptr, false);
  return typed.is_number() ? typed : text.empty() ? Json() : Json(text);
}

std::size_t column_of(ResultTable& table, const ResultColumn& column, std::size_t first) {
  const auto begin = table.columns.begin() + static_cast<std::ptrdiff_t>(first);
  const auto found =
      std::find_if(begin, table.columns.end(), [&](const ResultColumn& c) { return c.name == column.name; });
  const auto at = static_cast<std::size_t>(found - table.columns.begin());
  if (found == table.columns.end()) {
    table.columns.push_back(column);
    for (std::vector<Cell>& row : table.rows) {
      row.push_back(kEmpty);
    }
  }
  table.columns[at].text = table.columns[at].text || column.text;
  return at;
}

}  // namespace

std::string text_of(const Cell& cell) {
  const auto* number = std::get_if<double>(&cell);
  return number != nullptr ? exact(*number) : std::get<std::string>(cell);
}

double number_of(const Cell& cell) {
  if (const auto* number = std::get_if<double>(&cell)) {
    return *number;
  }
  return number_from<double>(std::get<std::string>(cell)).value_or(kUndefined);
}

void ResultTable::add_columns(const std::vector<std::string>& names, bool text) {
  for (const std::string& column : names) {
    columns.push_back({column, text});
  }
}

ResultTable metric_table(const std::string& name, const RunSummary& run) {
  ResultTable out{name, {}, {{}}};
  for (const MetricSection& section : metric_sections()) {
    for (const Metric* m : metrics_in(run, section)) {
      out.columns.push_back({m->name, m->is_text()});
      out.rows.front().push_back(m->is_text() ? Cell(run.texts[m->index]) : Cell(run.numbers[m->index]));
    }
  }
  return out;
}

ResultTable without_columns(const ResultTable& table, std::span<const std::string_view> dropped) {
  ResultTable out{table.name, {}, std::vector<std::vector<Cell>>(table.rows.size())};
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    if (std::find(dropped.begin(), dropped.end(), table.columns[c].name) != dropped.end()) {
      continue;
    }
    out.columns.push_back(table.columns[c]);
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      out.rows[r].push_back(table.rows[r][c]);
    }
  }
  return out;
}

void append_rows(ResultTable& all, const std::vector<Cell>& lead, const ResultTable& table) {
  const std::vector<std::size_t> places =
      mapped(table.columns, [&](const ResultColumn& column) { return column_of(all, column, lead.size()); });
  for (const std::vector<Cell>& cells : table.rows) {
    EPSIM_CHECK(cells.size() == places.size(), "a row has one cell per column");
    std::vector<Cell> row = lead;
    row.resize(all.columns.size(), kEmpty);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      row[places[i]] = cells[i];
    }
    all.rows.push_back(std::move(row));
  }
}

nlohmann::ordered_json json_rows(const ResultTable& table) {
  Json out = Json::array();
  for (const std::vector<Cell>& cells : table.rows) {
    Json& row = out.emplace_back(Json::object());
    for (std::size_t c = 0; c < cells.size(); ++c) {
      row[table.columns[c].name] = json_of(cells[c], table.columns[c].text);
    }
  }
  return out;
}

std::string table_csv(const ResultTable& table) {
  std::ostringstream out;
  {
    CsvTable csv(out, mapped(table.columns, &ResultColumn::name));
    for (const std::vector<Cell>& row : table.rows) {
      for (const Cell& cell : row) {
        csv.text(text_of(cell));
      }
      csv.end_row();
    }
  }
  return out.str();
}

}  // namespace epsim
