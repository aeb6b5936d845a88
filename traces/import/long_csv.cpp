#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "sim/core/refuse.h"
#include "traces/format/csv.h"
#include "traces/import/formats.h"

namespace epsim {

namespace {

struct Columns {
  std::size_t step, layer, expert, count;
  std::optional<std::size_t> source;
  explicit Columns(const CsvReader& rows)
      : step(rows.column("step")),
        layer(rows.column("layer")),
        expert(rows.column("expert")),
        count(rows.column("count")),
        source(rows.find_column("source")) {}
};

int bounded(const CsvReader& rows, std::size_t column, int limit) {
  const std::int64_t value = rows.integer(column);
  if (value < 0 || value >= limit) {
    rows.fail(column, fmt::format("{}; allowed are 0 to {}.", value, limit - 1));
  }
  return static_cast<int>(value);
}

// The shape is known only at the end, so the file is read twice.
struct Shape {
  std::set<int> layers;
  int experts = 0, sources = 1;
  bool any = false;  // count other than 0
};

Shape read_shape(const std::filesystem::path& file) {
  ByteInput input(file);
  CsvReader rows(input);
  const Columns c(rows);
  Shape shape;
  while (rows.next()) {
    shape.layers.insert(bounded(rows, c.layer, 4096));
    shape.experts = std::max(shape.experts, bounded(rows, c.expert, 65536) + 1);
    shape.any = shape.any || rows.number(c.count) != 0;
    shape.sources = std::max(shape.sources, c.source ? bounded(rows, *c.source, 65536) + 1 : 1);
  }
  if (shape.layers.empty()) {
    input.fail("the file holds no counts.");
  }
  refuse_if(!shape.any, {file.string(), 0, ""}, kEveryCountZero);
  return shape;
}

}  // namespace

bool recognises_long_csv(const std::filesystem::path&, std::string_view head) {
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  return line == "step,layer,expert,count" || line == "step,source,layer,expert,count";
}

void import_long_csv(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink) {
  const Shape shape = read_shape(file);
  const std::vector<int> numbers(shape.layers.begin(), shape.layers.end());
  const TraceInfo info = imported_info(file, "long_csv", options, numbers, shape.experts, 0);
  sink.begin(info, shape.sources);
  const auto sources = static_cast<std::size_t>(shape.sources), experts = static_cast<std::size_t>(info.experts);
  constexpr double kAbsent = -1;
  std::vector<double> row(numbers.size() * sources * experts, kAbsent);
  std::vector<std::int64_t> tokens(sources), steps;
  const auto flush = [&] {
    std::ranges::replace(row, kAbsent, 0.0);
    for (std::size_t s = 0; s < sources; ++s) {
      tokens[s] = tokens_of(std::span(row).subspan(s * experts, experts), info.top_k);
    }
    sink.loads({row, tokens});
    std::ranges::fill(row, kAbsent);
  };
  ByteInput input(file);
  CsvReader rows(input);
  const Columns c(rows);
  while (rows.next()) {
    const std::int64_t step = rows.integer(c.step);
    if (steps.empty() || step != steps.back()) {
      if (!steps.empty() && step < steps.back()) {
        rows.fail(c.step, "steps must be in ascending order.");
      }
      if (!steps.empty()) {
        flush();
      }
      steps.push_back(step);
    }
    const auto layer = static_cast<std::size_t>(
        std::lower_bound(numbers.begin(), numbers.end(), bounded(rows, c.layer, 4096)) - numbers.begin());
    const auto source = static_cast<std::size_t>(c.source ? bounded(rows, *c.source, 65536) : 0);
    const double count = rows.number(c.count);
    if (count < 0) {
      rows.fail(c.count, "a count may not be negative.");
    }
    const auto expert = static_cast<std::size_t>(bounded(rows, c.expert, 65536));
    if (std::exchange(row[(layer * sources + source) * experts + expert], count) != kAbsent) {
      rows.fail(c.expert, fmt::format("expert {} of layer {} occurs twice in step {}.", expert, numbers[layer], step));
    }
  }
  flush();
  Table table;
  table.columns.emplace_back("step", steps);
  sink.table("load_rows", table);
}

}  // namespace epsim
