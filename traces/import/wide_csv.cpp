#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "traces/format/csv.h"
#include "traces/format/typed_table.h"
#include "traces/import/formats.h"

namespace epsim {

namespace {

constexpr std::size_t kMaxCounts = std::size_t{1} << 27;  // the file is gathered in memory: 1 GiB of counts

std::optional<std::size_t> layer_column(const std::vector<std::string>& header) {
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (header[i] == "layer" || header[i] == "layer_idx") {
      return i;
    }
  }
  return std::nullopt;
}

// Lines by label (in the order of first appearance) and layer.
struct Gathered {
  std::vector<std::string> titles;               // of the label columns
  std::vector<std::vector<std::string>> labels;  // [group][title]
  std::vector<std::map<int, std::vector<double>>> layers;
  std::map<std::vector<std::string>, std::size_t> group_of;
  bool any = false;  // count above 0
};

Gathered gather(CsvReader& rows, std::size_t layer, const std::vector<std::size_t>& experts) {
  Gathered g;
  std::vector<std::size_t> label_columns;
  for (std::size_t i = 0; i < experts.front(); ++i) {
    if (i != layer && !rows.header()[i].empty()) {
      label_columns.push_back(i);
      g.titles.push_back(rows.header()[i]);
    }
  }
  std::size_t counts = 0;
  while (rows.next()) {
    const std::vector<std::string> label =
        mapped(label_columns, [&](std::size_t c) { return std::string(rows.text(c)); });
    const auto [found, added] = g.group_of.try_emplace(label, g.labels.size());
    if (added) {
      g.labels.push_back(label);
      g.layers.emplace_back();
    }
    const std::int64_t number = rows.integer(layer);
    std::vector<double> values;
    for (const std::size_t c : experts) {
      values.push_back(rows.number(c));
      if (values.back() < 0) {
        rows.fail(c, fmt::format("the count {} is negative.", values.back()));
      }
      g.any = g.any || values.back() > 0;
    }
    if (number < 0 || number >= 4096) {
      rows.fail(layer, "a layer number is from 0 to 4095.");
    }
    counts += values.size();
    if (counts > kMaxCounts) {
      rows.fail(layer, "the file holds more than 2^27 counts; convert it in parts.");
    }
    if (!g.layers[found->second].emplace(static_cast<int>(number), std::move(values)).second) {
      rows.fail(layer, g.titles.empty()
                           ? fmt::format("layer {} occurs twice; rows need a column that tells them apart.", number)
                           : fmt::format("layer {} occurs twice for the same {}.", number, fmt::join(g.titles, ", ")));
    }
  }
  return g;
}

}  // namespace

bool recognises_wide_csv(const std::filesystem::path&, std::string_view head) {
  ByteInput input = ByteInput::from_memory("head", std::string(head.substr(0, head.find('\n'))));
  if (head.empty() || head[0] == '\n' || head[0] == '"') {
    return false;
  }
  const CsvReader rows(input);
  return layer_column(rows.header()).has_value() && !expert_columns(rows.header()).empty() &&
         !rows.find_column("token");
}

void import_wide_csv(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink) {
  ByteInput input(file);
  CsvReader rows(input);
  const std::optional<std::size_t> layer = layer_column(rows.header());
  const std::vector<std::size_t> experts = expert_columns(rows.header());
  if (!layer || experts.empty()) {
    input.fail(
        "the header needs a column `layer` (or `layer_idx`) and ends with the experts e0, e1, ... (or 0, 1, ...).");
  }
  const Gathered g = gather(rows, *layer, experts);
  if (g.layers.empty()) {
    input.fail("the file holds no counts.");
  }
  refuse_if(!g.any, {file.string(), 0, ""}, kEveryCountZero);
  const std::vector<int> numbers = mapped(g.layers[0], [](const auto& counts) { return counts.first; });
  const TraceInfo info = imported_info(file, "wide_csv", options, numbers, static_cast<int>(experts.size()), 0);
  if (info.experts != static_cast<int>(experts.size())) {
    input.fail(fmt::format("the header has {} experts, not {}.", experts.size(), info.experts));
  }
  sink.begin(info, 1);
  std::vector<double> row;
  for (std::size_t i = 0; i < g.layers.size(); ++i) {
    row.clear();
    for (const int number : numbers) {
      const auto found = g.layers[i].find(number);
      if (found == g.layers[i].end() || g.layers[i].size() != numbers.size()) {
        input.fail(
            fmt::format("'{}' has other layers than '{}'.", fmt::join(g.labels[i], ","), fmt::join(g.labels[0], ",")));
      }
      row.insert(row.end(), found->second.begin(), found->second.end());
    }
    const std::int64_t tokens = tokens_of(std::span(row).first(info.experts), info.top_k);
    sink.loads({row, {&tokens, 1}});
  }
  Table table;
  for (std::size_t t = 0; t < g.titles.size(); ++t) {
    table.columns.emplace_back(g.titles[t],
                               typed_column(mapped(g.labels, [&](const auto& label) { return label[t]; })));
  }
  if (!table.columns.empty()) {
    sink.table("load_rows", table);
  }
}

}  // namespace epsim
