#include "sim/verbs/diagnose_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "models/catalogue/model_catalogue.h"
#include "sim/core/error.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"
#include "traces/commands/trace_commands.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/format/trace_file.h"

namespace epsim {
namespace {

constexpr std::int64_t kTokensAtOnce = 4096;

// Imports of formats that do not say top-k need one, which counts do not depend on.
std::unique_ptr<OpenedTrace> open_counts(const std::string& file, const std::string& format, int experts) {
  try {
    return std::make_unique<OpenedTrace>(file, format, ImportOptions{.experts = experts});
  } catch (const InputError& e) {
    if (e.place.key != "top_k") {
      throw;
    }
    return std::make_unique<OpenedTrace>(file, format, ImportOptions{.experts = experts, .top_k = 1});
  }
}

void add_rows(const TraceFile& trace, std::int64_t first, std::int64_t count, LoadWindow& window) {
  const auto sources = static_cast<std::size_t>(trace.sources()), experts = static_cast<std::size_t>(window.experts());
  std::vector<double> row(trace.load_row_size()), sum(row.size() / sources);
  std::vector<std::int64_t> tokens(sources);
  for (std::int64_t r = first; r < first + count; ++r) {
    trace.read_loads<double>(r, 1, row, tokens);
    add_sources<double>(row, sources, experts, sum);
  }
  for (int l = 0; l < window.layers(); ++l) {
    std::copy_n(sum.begin() + std::ptrdiff_t{l} * window.experts(), window.experts(), window.layer(l).begin());
  }
}

void add_tokens(const TraceFile& trace, std::int64_t first, std::int64_t count, LoadWindow& window) {
  const auto layers = static_cast<std::size_t>(window.layers());
  const auto top_k = static_cast<std::size_t>(trace.info().top_k);
  TraceFile::Tokens tokens;
  for (std::int64_t at = first; at < first + count; at += kTokensAtOnce) {
    trace.read_tokens(at, std::min(kTokensAtOnce, first + count - at), tokens);
    for (std::size_t i = 0; i < tokens.experts.size(); ++i) {
      window.layer(static_cast<int>(i / top_k % layers))[tokens.experts[i]] += 1;
    }
  }
}

// A table may end with a line of totals, which no window is: a plan made with it has seen what it is scored on.
void refuse_totals(const TraceFile& trace, const std::string& file) {
  constexpr std::int64_t kFewest = 3, kMost = 1024;  // rows that someone labelled; a recording's are more
  const std::int64_t rows = trace.load_rows();
  if (rows < kFewest || rows > kMost) {
    return;
  }
  const LoadWindow none(trace.info().layers(), trace.info().experts);
  LoadWindow all = none, one = none;
  add_rows(trace, 0, rows, all);
  for (std::int64_t r = 0; r < rows; ++r) {
    add_rows(trace, r, 1, one);
    bool total = true;
    for (int l = 0; l < one.layers() && total; ++l) {
      total = std::ranges::equal(one.layer(l), all.layer(l), [](double a, double b) { return 2 * a == b; });
    }
    refuse_if(total, {file, 0, ""},
              fmt::format("window {} of {} is the sum of all the others: leave out the totals.", r + 1, rows));
  }
}

}  // namespace

RecordedCounts read_counts(const std::string& file, const std::string& format, int most, int experts) {
  const std::unique_ptr<OpenedTrace> opened = open_counts(file, format, experts);
  const TraceFile trace(opened->path());
  const bool by_rows = trace.load_rows() > 0;
  const std::int64_t items = by_rows ? trace.load_rows() : trace.token_count();
  refuse_if(items == 0, {file, 0, ""}, "this recording holds neither counts nor tokens.");
  refuse_totals(trace, file);
  RecordedCounts out{trace.info().experts, {}};
  const std::int64_t parts = std::min<std::int64_t>(most, items);
  for (std::int64_t p = 0; p < parts; ++p) {
    const std::int64_t first = items * p / parts, count = items * (p + 1) / parts - first;
    LoadWindow& window = out.windows.emplace_back(trace.info().layers(), trace.info().experts);
    by_rows ? add_rows(trace, first, count, window) : add_tokens(trace, first, count, window);
  }
  return out;
}

void check_counts(const RecordedCounts& counts, const MoeSpec& model, const std::string& file) {
  refuse_if(counts.layers() != model.moe_layers() || counts.experts != model.experts, {file, 0, ""},
            fmt::format("this file has {} of {} experts, {} has {} of {}.", count_of(counts.layers(), "layer"),
                        counts.experts, model.name, count_of(model.moe_layers(), "MoE layer"), model.experts));
  for (const LoadWindow& window : counts.windows) {
    const std::string problem = problem_of(window, model);
    refuse_if(!problem.empty(), {file, 0, ""}, problem);
  }
}

ModelOfCounts model_of_counts(const RecordedCounts& counts, const std::string& file) {
  ModelOfCounts out;
  for (const ModelItem& item : list_models()) {
    const MoeSpec model = find_model(item.name);
    if (model.moe_layers() == counts.layers() && model.experts == counts.experts) {
      out.all.push_back(item.name);
    }
  }
  refuse_if(out.all.empty(), {file, 0, ""},
            fmt::format("no built-in model has {} of {} experts; name one with "
                        "--model (a Hugging Face config.json will do), or give --scenario.",
                        count_of(counts.layers(), "MoE layer"), counts.experts));
  out.name = out.all.front();
  return out;
}

}  // namespace epsim
