#include "sim/app/sweep_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/core/error.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr WorkKind kSweepWork{"sweep", "sweep.json", "points"};
constexpr int kPointFormat = 1;  // of a point's file

std::string part_name(std::size_t index) { return fmt::format("{:06}", index); }

std::string dump(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json json_of(const ResultTable& table) {
  Json out{{"table", table.name}, {"columns", Json::array()}, {"text_columns", Json::array()}, {"rows", Json::array()}};
  for (const ResultColumn& column : table.columns) {
    out["columns"].push_back(column.name);
    if (column.text) {
      out["text_columns"].push_back(column.name);
    }
  }
  for (const std::vector<Cell>& cells : table.rows) {
    Json& row = out["rows"].emplace_back(Json::array());
    std::transform(cells.begin(), cells.end(), std::back_inserter(row), text_of);
  }
  return out;
}

ResultTable table_of(const Json& json) {
  ResultTable out{json.at("table"), {}, {}};
  const std::vector<std::string> text = json.at("text_columns");
  for (const std::string column : json.at("columns")) {
    out.columns.push_back({column, std::find(text.begin(), text.end(), column) != text.end()});
  }
  for (const std::vector<std::string> cells : json.at("rows")) {
    std::vector<Cell>& row = out.rows.emplace_back();
    for (std::size_t c = 0; c < cells.size(); ++c) {
      row.push_back(out.columns.at(c).text ? Cell(cells[c]) : Cell(number_of(cells[c])));
    }
  }
  return out;
}

SweepPoint point_of(const Json& json, std::size_t index) {
  SweepPoint out;
  out.index = json.at("point");
  if (json.at("format") != kPointFormat || out.index != index) {
    throw std::invalid_argument("another format, or another point");
  }
  out.error = json.at("error").is_null() ? "" : json.at("error");
  for (const Json& file : json.at("inputs")) {
    out.inputs.push_back({file.at("file_name"), file.at("size_bytes"), file.at("content_hash")});
  }
  for (const Json& table : json.at("tables")) {
    out.tables.push_back(table_of(table));
  }
  return out;
}

}  // namespace

bool holds_sweep(const fs::path& folder, const std::string& manifest) {
  return holds_work(folder, kSweepWork, manifest);
}

SweepFolder::SweepFolder(const fs::path& target, const std::string& manifest, bool overwrite)
    : folder_(target, kSweepWork, manifest, overwrite) {}

std::optional<SweepPoint> SweepFolder::load(std::size_t index) {
  const std::optional<std::string> text = folder_.load(part_name(index));
  if (!text) {
    return std::nullopt;
  }
  SweepPoint point;
  try {
    point = point_of(Json::parse(*text), index);
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
  check_inputs(point);
  return point;
}

void SweepFolder::check_inputs(const SweepPoint& point) {
  for (const InputFile& input : point.inputs) {
    auto known = std::find_if(seen_.begin(), seen_.end(), [&](const InputFile& f) { return f.name == input.name; });
    if (known == seen_.end()) {
      seen_.push_back(describe_file(input.name));
      known = seen_.end() - 1;
    }
    if (known->hash != input.hash) {
      throw InputError({input.name, 0, ""},
                       fmt::format("the file has changed since point {} of this sweep read it. Name "
                                   "another folder, or add --overwrite to start anew.",
                                   point.index));
    }
  }
}

void SweepFolder::save(const SweepPoint& point) const {
  Json out{{"format", kPointFormat}, {"point", point.index}};
  out["error"] = point.error.empty() ? Json(nullptr) : Json(point.error);
  out["inputs"] = Json::array();
  for (const InputFile& file : point.inputs) {
    out["inputs"].push_back({{"file_name", file.name}, {"size_bytes", file.bytes}, {"content_hash", file.hash}});
  }
  out["tables"] = Json::array();
  for (const ResultTable& table : point.tables) {
    out["tables"].push_back(json_of(table));
  }
  folder_.save(part_name(point.index), dump(out));
}

}  // namespace epsim::app
