#include "sim/report/sweep_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/report/csv_table.h"
#include "sim/report/format.h"

namespace epsim {
namespace {

using Json = nlohmann::ordered_json;

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What a reader finds elsewhere, or what compares with another policy.
bool is_left_out(const std::string& key) {
  static constexpr std::string_view kInputs[] = {"format", "epsim_version", "scenario", "seed", "policy"};
  return contains(kInputs, key) || key.ends_with("_ratio");
}

std::string cell_of(const Json& value) {
  if (value.is_boolean()) {
    return value.get<bool>() ? "1" : "0";
  }
  if (value.is_number_float()) {
    return exact(value.get<double>());
  }
  return value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump();
}

void add_figures(const Json& section, ResultTable& out) {
  for (const auto& [key, value] : section.items()) {
    if (is_left_out(key) || value.is_array()) {
      continue;
    }
    const bool estimate = value.is_object() && value.contains("mean") && value.contains("half_width");
    if (value.is_object() && !estimate) {
      add_figures(value, out);
      continue;
    }
    const Json& figure = estimate ? value.at("mean") : value;
    out.columns.push_back({key, figure.is_string()});
    out.rows.front().push_back(cell_of(figure));
  }
}

// The fields of the line that starts at `at`, which is left behind its end.
std::vector<std::string> split_line(const std::string& csv, std::size_t& at) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (; at < csv.size(); ++at) {
    const char c = csv[at];
    if (c == '"' && quoted && at + 1 < csv.size() && csv[at + 1] == '"') {
      fields.back() += csv[++at];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c == '\n' && !quoted) {
      ++at;
      break;
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

std::size_t column_of(ResultTable& table, const ResultColumn& column, std::size_t first) {
  const auto begin = table.columns.begin() + static_cast<std::ptrdiff_t>(first);
  const auto found =
      std::find_if(begin, table.columns.end(), [&](const ResultColumn& c) { return c.name == column.name; });
  const auto at = static_cast<std::size_t>(found - table.columns.begin());
  if (found == table.columns.end()) {
    table.columns.push_back(column);
    for (std::vector<std::string>& row : table.rows) {
      row.emplace_back();
    }
  }
  table.columns[at].text = table.columns[at].text || column.text;
  return at;
}

}  // namespace

ResultTable figures_of_json(const std::string& name, const std::string& json, const std::string& section) {
  ResultTable out{name, {}, {{}}};
  add_figures(Json::parse(json).at(Json::json_pointer(section)), out);
  return out;
}

ResultTable table_of_csv(const std::string& name, const std::string& csv, std::span<const std::string_view> dropped,
                         std::span<const std::string_view> text_columns) {
  ResultTable out{name, {}, {}};
  std::size_t at = 0;
  const std::vector<std::string> header = split_line(csv, at);
  for (const std::string& column : header) {
    if (!contains(dropped, column)) {
      out.columns.push_back({column, contains(text_columns, column)});
    }
  }
  for (int line = 2; at < csv.size(); ++line) {
    const std::vector<std::string> fields = split_line(csv, at);
    if (fields.size() != header.size()) {
      throw InputError({name, line, ""},
                       fmt::format("{} fields, but the header has {}.", fields.size(), header.size()));
    }
    std::vector<std::string>& row = out.rows.emplace_back();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (!contains(dropped, header[i])) {
        row.push_back(fields[i]);
      }
    }
  }
  return out;
}

void append_rows(ResultTable& all, const std::vector<std::string>& lead, const ResultTable& table) {
  std::vector<std::size_t> places;
  for (const ResultColumn& column : table.columns) {
    places.push_back(column_of(all, column, lead.size()));
  }
  for (const std::vector<std::string>& cells : table.rows) {
    EPSIM_CHECK(cells.size() == places.size(), "a row has one cell per column");
    std::vector<std::string> row = lead;
    row.resize(all.columns.size());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      row[places[i]] = cells[i];
    }
    all.rows.push_back(std::move(row));
  }
}

nlohmann::ordered_json json_rows(const ResultTable& table) {
  Json out = Json::array();
  for (const std::vector<std::string>& cells : table.rows) {
    Json& row = out.emplace_back(Json::object());
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const Json number = table.columns[c].text ? Json() : Json::parse(cells[c], nullptr, false);
      row[table.columns[c].name] = number.is_number() ? number : cells[c].empty() ? Json() : Json(cells[c]);
    }
  }
  return out;
}

void write_table_csv(std::ostream& out, const ResultTable& table) {
  std::vector<std::string_view> names;
  for (const ResultColumn& column : table.columns) {
    names.push_back(column.name);
  }
  CsvTable csv(out, names);
  for (const std::vector<std::string>& row : table.rows) {
    for (const std::string& cell : row) {
      csv.text(cell);
    }
    csv.end_row();
  }
}

}  // namespace epsim
