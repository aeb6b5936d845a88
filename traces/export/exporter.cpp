#include "traces/export/exporter.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/named.h"
#include "sim/core/refuse.h"
#include "traces/format/typed_table.h"

namespace epsim {

namespace {

void need(bool holds, const TraceFile& trace, const char* what) {
  refuse_if(!holds, {trace.name(), 0, ""}, fmt::format("the trace holds no {}, which this format is made of.", what));
}

// Whole numbers without a point, others with as many digits as they need.
std::string number(double x) { return x == std::floor(x) ? fmt::format("{:.0f}", x) : fmt::format("{}", x); }

// Calls `visit(row, counts [layer][source][expert])`.
template <class Visit>
void for_each_row(const TraceFile& trace, Visit visit) {
  need(trace.load_rows() > 0, trace, "load rows");
  std::vector<double> counts(trace.load_row_size());
  std::vector<std::int64_t> tokens(trace.sources());
  for (std::int64_t r = 0; r < trace.load_rows(); ++r) {
    trace.read_loads<double>(r, 1, counts, tokens);
    visit(r, std::span<const double>(counts));
  }
}

// Calls `visit(token, experts [layer][k])`.
template <class Visit>
void for_each_token(const TraceFile& trace, Visit visit) {
  need(trace.token_count() > 0, trace, "tokens");
  const std::size_t width = static_cast<std::size_t>(trace.info().layers()) * trace.info().top_k;
  TraceFile::Tokens block;
  constexpr std::int64_t kAtOnce = 4096;
  for (std::int64_t t = 0; t < trace.token_count(); t += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, trace.token_count() - t);
    trace.read_tokens(t, count, block);
    for (std::int64_t i = 0; i < count; ++i) {
      visit(t + i, std::span(block.experts).subspan(static_cast<std::size_t>(i) * width, width));
    }
  }
}

// One layer of a row with its sources summed.
std::vector<double> layer_counts(const TraceFile& trace, std::span<const double> row, int layer) {
  const auto experts = static_cast<std::size_t>(trace.info().experts);
  const auto sources = static_cast<std::size_t>(trace.sources());
  std::vector<double> out(experts, 0.0);
  add_sources(row.subspan(layer * experts * sources, experts * sources), sources, experts, std::span(out));
  return out;
}

// As Python's json module writes SGLang's tensors: floats, ", " between them; dense layers all zero.
void write_sglang_step(const TraceFile& trace, std::span<const double> row, std::ostream& out) {
  const std::vector<int>& numbers = trace.info().layer_numbers;
  const int layers = trace.info().model_layers > 0 ? trace.info().model_layers : trace.info().layers();
  const bool all = trace.info().model_layers > 0;
  std::size_t moe = 0;
  out << '[';
  for (int l = 0; l < layers; ++l) {
    const bool is_moe = !all || (moe < numbers.size() && numbers[moe] == l);
    std::vector<double> counts(trace.info().experts, 0.0);
    if (is_moe) {
      counts = layer_counts(trace, row, static_cast<int>(moe++));
    }
    out << (l == 0 ? "[" : ", [");
    for (std::size_t e = 0; e < counts.size(); ++e) {
      const bool whole = counts[e] == std::floor(counts[e]) && counts[e] < 1e16;
      out << (e == 0 ? "" : ", ") << (whole ? fmt::format("{:.1f}", counts[e]) : fmt::format("{}", counts[e]));
    }
    out << ']';
  }
  out << ']';
}

void export_sglang(const TraceFile& trace, std::ostream& out) {
  out << "{\"logical_count\": " << (trace.load_rows() > 1 ? "[" : "");
  for_each_row(trace, [&](std::int64_t r, std::span<const double> row) {
    out << (r == 0 ? "" : ", ");
    write_sglang_step(trace, row, out);
  });
  out << (trace.load_rows() > 1 ? "]" : "") << '}';
}

Table labels_of(const TraceFile& trace) {
  for (const std::string& name : trace.tables()) {
    if (name == "load_rows") {
      return trace.table(name);
    }
  }
  return {};
}

// Rows without labels are told apart by their step: an import takes lines that agree in all other columns as one row.
void export_wide_csv(const TraceFile& trace, std::ostream& out) {
  Table labels = labels_of(trace);
  if (labels.columns.empty() && trace.load_rows() > 1) {
    std::vector<std::int64_t> steps(static_cast<std::size_t>(trace.load_rows()));
    std::iota(steps.begin(), steps.end(), std::int64_t{0});
    labels.columns.emplace_back("step", std::move(steps));
  }
  for (const auto& [title, column] : labels.columns) {
    out << title << ',';
  }
  out << "layer";
  for (int e = 0; e < trace.info().experts; ++e) {
    fmt::print(out, ",e{}", e);
  }
  out << '\n';
  for_each_row(trace, [&](std::int64_t r, std::span<const double> row) {
    for (int l = 0; l < trace.info().layers(); ++l) {
      for (const auto& [title, column] : labels.columns) {
        out << table_field(column, static_cast<std::size_t>(r)) << ',';
      }
      out << trace.info().layer_numbers[l];
      for (const double x : layer_counts(trace, row, l)) {
        out << ',' << number(x);
      }
      out << '\n';
    }
  });
}

void export_long_csv(const TraceFile& trace, std::ostream& out) {
  out << "step,source,layer,expert,count\n";
  const Table labels = labels_of(trace);
  const std::vector<std::int64_t>* steps = labels.numbers("step");
  const auto experts = static_cast<std::size_t>(trace.info().experts);
  const auto sources = static_cast<std::size_t>(trace.sources());
  for_each_row(trace, [&](std::int64_t r, std::span<const double> row) {
    const std::int64_t step = steps != nullptr ? (*steps)[r] : r;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i] != 0 || i + 1 == row.size()) {  // the last one keeps the shape
        const int layer = trace.info().layer_numbers[i / (experts * sources)];
        fmt::print(out, "{},{},{},{},{}\n", step, i / experts % sources, layer, i % experts, number(row[i]));
      }
    }
  });
}

void export_token_csv(const TraceFile& trace, std::ostream& out) {
  out << "token,layer";
  for (int k = 0; k < trace.info().top_k; ++k) {
    fmt::print(out, ",e{}", k);
  }
  out << '\n';
  const auto k = static_cast<std::size_t>(trace.info().top_k);
  for_each_token(trace, [&](std::int64_t token, std::span<const std::uint16_t> ids) {
    for (std::size_t l = 0; l * k < ids.size(); ++l) {
      fmt::print(out, "{},{},{}\n", token, trace.info().layer_numbers[l], fmt::join(ids.subspan(l * k, k), ","));
    }
  });
}

void export_token_binary(const TraceFile& trace, std::ostream& out) {
  need(trace.info().experts <= 256, trace, "ids that fit a byte");
  for_each_token(trace, [&](std::int64_t, std::span<const std::uint16_t> ids) {
    const std::string bytes(ids.begin(), ids.end());
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  });
}

void export_sequences(const TraceFile& trace, std::ostream& out) {
  const std::vector<std::string> names = trace.tables();
  need(std::find(names.begin(), names.end(), "sequences") != names.end(), trace, "table of sequences");
  out << table_csv(trace.table("sequences"));
}

constexpr TraceExporter kExporters[] = {
    {"sglang", "SGLang logical_count JSON; several rows become steps", export_sglang},
    {"wide_csv", "CSV of counts, one line per layer, a column per expert", export_wide_csv},
    {"long_csv", "CSV of counts, one a line: step,source,layer,expert,count", export_long_csv},
    {"token_csv", "CSV of expert ids, one line per token and layer", export_token_csv},
    {"token_binary", "raw bytes of expert ids [token][layer][k]", export_token_binary},
    {"sequences", "the table of sequences as CSV, beside token_binary", export_sequences}};

}  // namespace

std::span<const TraceExporter> trace_exporters() { return kExporters; }

void export_trace(const TraceFile& trace, const std::string& format, std::ostream& out) {
  require_named(kExporters, "format", format, {trace.name(), 0, "format"}).run(trace, out);
}

}  // namespace epsim
