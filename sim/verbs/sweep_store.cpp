#include "sim/verbs/sweep_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/core/error.h"
#include "sim/core/fingerprint.h"
#include "sim/study/store_json.h"

namespace epsim {

namespace {

constexpr int kPointFormat = 2;  // of a point's file

nlohmann::json json_of(const Cell& cell) {
  const auto* number = std::get_if<double>(&cell);
  return number != nullptr ? stored_number(*number) : nlohmann::json(std::get<std::string>(cell));
}
Cell cell_in(const nlohmann::json& json) {
  return json.is_string() ? Cell(json.get<std::string>()) : Cell(number_in(json));
}

nlohmann::json json_of(const ResultTable& table) {
  nlohmann::json out{{"table", table.name}, {"columns", nlohmann::json::array()}, {"rows", nlohmann::json::array()}};
  for (const ResultColumn& column : table.columns) {
    out["columns"].push_back({column.name, column.text});
  }
  for (const std::vector<Cell>& cells : table.rows) {
    nlohmann::json& row = out["rows"].emplace_back(nlohmann::json::array());
    for (const Cell& cell : cells) {
      row.push_back(json_of(cell));
    }
  }
  return out;
}

ResultTable table_in(const nlohmann::json& json) {
  ResultTable out{json.at("table"), {}, {}};
  for (const nlohmann::json& column : json.at("columns")) {
    out.columns.push_back({column.at(0), column.at(1)});
  }
  for (const nlohmann::json& cells : json.at("rows")) {
    std::vector<Cell>& row = out.rows.emplace_back();
    std::transform(cells.begin(), cells.end(), std::back_inserter(row), cell_in);
  }
  return out;
}

SweepPoint point_in(const nlohmann::json& json) {
  SweepPoint out;
  out.index = json.at("point");
  out.error = json.at("error").is_null() ? "" : json.at("error");
  for (const nlohmann::json& file : json.at("inputs")) {
    out.inputs.push_back({file.at("file_name"), file.at("size_bytes"), file.at("content_hash")});
  }
  for (const nlohmann::json& table : json.at("tables")) {
    out.tables.push_back(table_in(table));
  }
  return out;
}

}  // namespace

std::optional<SweepPoint> stored_point(const std::string& text) { return read_stored(text, kPointFormat, point_in); }

std::string stored_text(const SweepPoint& point) {
  nlohmann::json out{{"point", point.index}};
  out["error"] = point.error.empty() ? nlohmann::json() : nlohmann::json(point.error);
  out["inputs"] = nlohmann::json::array();
  for (const InputFile& file : point.inputs) {
    out["inputs"].push_back({{"file_name", file.name}, {"size_bytes", file.bytes}, {"content_hash", file.hash}});
  }
  out["tables"] = nlohmann::json::array();
  for (const ResultTable& table : point.tables) {
    out["tables"].push_back(json_of(table));
  }
  return store_text(kPointFormat, std::move(out));
}

std::string label_of(const SweepPoint& point) {
  Fingerprint hash;
  for (const InputFile& file : point.inputs) {
    hash.add(std::string_view(file.name));
    hash.add(std::string_view(file.hash));
  }
  for (const ResultTable& table : point.tables) {
    hash.add(std::string_view(table.name));
    for (const ResultColumn& column : table.columns) {
      hash.add(std::string_view(column.name));
      hash.add(static_cast<std::uint64_t>(column.text));
    }
  }
  return fmt::format("{}-{}", point.error.empty() ? "ok" : kFailedLabel, hash.hex());
}

void UnchangedInputs::check(const SweepPoint& point) {
  for (const InputFile& input : point.inputs) {
    auto known = std::find_if(seen_.begin(), seen_.end(), [&](const InputFile& f) { return f.name == input.name; });
    if (known == seen_.end()) {
      seen_.push_back(describe_file(input.name));
      known = seen_.end() - 1;
    }
    if (known->hash != input.hash) {
      throw InputError({input.name, 0, ""},
                       fmt::format("the file has changed since point {} of this sweep read it. Name "
                                   "another folder, or add --overwrite to start over.",
                                   point.index));
    }
  }
}

}  // namespace epsim
