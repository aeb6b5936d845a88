#include "traces/commands/trace_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "traces/export/exporter.h"
#include "traces/format/statistics.h"
#include "traces/routing_model/fit.h"
#include "traces/routing_model/model_load_source.h"
#include "traces/routing_model/presets.h"
#include "traces/routing_model/routing_law.h"
#include "traces/routing_model/token_sampler.h"

namespace epsim {

namespace {

std::string or_unknown(const std::string& text) { return text.empty() ? "not stated" : text; }

std::string shape_lines(const TraceFile& trace, const std::string& title) {
  const TraceInfo& i = trace.info();
  std::string out = fmt::format("{}\n  model      {}\n  source     {}\n  licence    {}\n  recipe     {}\n", title,
                                or_unknown(i.model), or_unknown(i.source), or_unknown(i.licence), or_unknown(i.recipe));
  if (i.experts > 0) {
    out += fmt::format("  shape      {} MoE layers ({} to {}), {} experts, top-{}\n", i.layers(),
                       i.layer_numbers.front(), i.layer_numbers.back(), i.experts, i.top_k);
  }
  out += fmt::format("  load rows  {}{}\n", trace.load_rows(),
                     trace.load_rows() > 0 ? fmt::format(" from {} source ranks", trace.sources()) : "");
  if (trace.load_rows() == 0 || trace.token_count() > 0) {
    out += fmt::format("  tokens     {}\n", trace.token_count());
  }
  if (trace.has_requests()) {
    out += fmt::format("  requests   {}\n", trace.requests().trace.requests.size());
  }
  return out;
}

std::string skew_lines(const SkewSummary& s) {
  std::string out = fmt::format(
      "  assignments {}\n  max / mean by layer: least {:.4g}, median {:.4g}, mean {:.4g}, p90 {:.4g}, most {:.4g}\n"
      "  mean over layers: top-1 share {:.4g}, top-2 {:.4g}, hottest tenth {:.4g}, gini {:.4g}, effective experts "
      "{:.4g}\n",
      s.assignments == std::floor(s.assignments) ? fmt::format("{:.0f}", s.assignments)
                                                 : fmt::format("{:.6g}", s.assignments),
      s.min, s.median, s.mean, s.p90, s.max, s.average.top1_share, s.average.top2_share, s.average.top_tenth_share,
      s.average.gini, s.average.effective_experts);
  std::string gpus;
  for (std::size_t i = 0; i < kBalancednessGpus.size(); ++i) {
    if (s.average.balancedness[i]) {
      gpus += fmt::format("{}{} GPUs {:.4g} (worst layer {:.4g})", gpus.empty() ? "" : ", ", kBalancednessGpus[i],
                          *s.average.balancedness[i], *s.worst_balancedness[i]);
    }
  }
  return gpus.empty() ? out : out + "  balancedness, experts in order: " + gpus + "\n";
}

std::string bar_lines(const TraceFile& trace, const LoadWindow& window, int width) {
  const double most = skew_summary(window).max;
  const int room = std::max(10, width - 24);
  std::string out = "  layer  max / mean\n";
  for (int l = 0; l < window.layers(); ++l) {
    const double skew = layer_skew(window.layer(l)).max_over_mean;
    const auto length = static_cast<std::size_t>(std::max(1.0, skew / most * room));
    out += fmt::format("  {:>5}  {:>10.2f}  {}\n", trace.info().layer_numbers[l], skew, std::string(length, '#'));
  }
  return out;
}

// White at 0, pale blue at the mean, dark blue at 4 times the mean and above.
std::string shade(double over_mean) {
  const double depth = std::min(over_mean / 4.0, 1.0);
  const auto channel = [&](double dark) { return static_cast<int>(255 - (255 - dark) * depth); };
  return fmt::format("#{:02x}{:02x}{:02x}", channel(8), channel(48), channel(107));
}

// Rows [first, first + count) of a table.
Table rows_of(const Table& table, std::int64_t first, std::int64_t count) {
  Table out;
  for (const auto& [title, column] : table.columns) {
    out.columns.emplace_back(title, std::visit(
                                        [&](const auto& values) -> Table::Column {
                                          const auto from = values.begin() + first;
                                          return std::decay_t<decltype(values)>(from, from + count);
                                        },
                                        column));
  }
  return out;
}

std::vector<std::int64_t>* numbers(Table& table, const std::string& name) {
  return const_cast<std::vector<std::int64_t>*>(table.numbers(name));
}

// Sequences after tokens [first, first + count) were cut out.
Table cut_sequences(Table table, std::int64_t first, std::int64_t count) {
  auto* start = numbers(table, "first_row");
  auto* size = numbers(table, "num_tokens");
  auto* from = numbers(table, "first_token_pos");
  auto* to = numbers(table, "last_token_pos");
  if (start == nullptr || size == nullptr) {
    return table;
  }
  for (std::size_t i = 0; i < start->size(); ++i) {
    const std::int64_t begin = std::clamp((*start)[i], first, first + count);
    const std::int64_t end = std::clamp((*start)[i] + (*size)[i], first, first + count);
    const std::int64_t skipped = begin - (*start)[i], lost = (*start)[i] + (*size)[i] - end;
    (*start)[i] = begin - first;
    (*size)[i] = end - begin;
    if (from != nullptr && end > begin) {
      (*from)[i] += skipped;
    }
    if (to != nullptr && end > begin) {
      (*to)[i] -= lost;
    }
  }
  return table;
}

// Copies the wanted layers of a trace, row by row and block by block.
class Slicer {
 public:
  Slicer(const TraceFile& trace, const TraceSlice& slice, TraceFileWriter& out) : trace_(trace), out_(out) {
    const std::vector<int>& have = trace.info().layer_numbers;
    for (std::size_t l = 0; l < have.size(); ++l) {
      if (slice.layers.empty() || std::find(slice.layers.begin(), slice.layers.end(), have[l]) != slice.layers.end()) {
        layers_.push_back(l);
      }
    }
    for (const int layer : slice.layers) {
      refuse_if(std::find(have.begin(), have.end(), layer) == have.end(), {trace.name(), 0, "layers"},
                fmt::format("layer {} is not in the trace, which has {}.", layer, fmt::join(have, ", ")));
    }
    first_row_ = slice.first_row;
    rows_ = length_of("rows", "load rows", slice.first_row, slice.rows, trace.load_rows());
    first_token_ = slice.first_token;
    tokens_ = length_of("tokens", "tokens", slice.first_token, slice.tokens, trace.token_count());
    refuse_if(rows_ + tokens_ == 0, {trace.name(), 0, ""},
              fmt::format("nothing is left: the trace has {} load rows and {} tokens.", trace.load_rows(),
                          trace.token_count()));
  }
  void run() {
    TraceInfo info = trace_.info();
    info.layer_numbers.clear();
    for (const std::size_t l : layers_) {
      info.layer_numbers.push_back(trace_.info().layer_numbers[l]);
    }
    info.recipe += fmt::format("; cut: rows {}+{}, tokens {}+{}, {} layers", first_row_, rows_, first_token_, tokens_,
                               layers_.size());
    out_.begin(info, std::max(1, trace_.sources()));
    copy_rows();
    copy_tokens();
    for (const std::string& name : trace_.tables()) {
      const Table table = trace_.table(name);
      out_.table(name, name == "load_rows"   ? rows_of(table, first_row_, rows_)
                       : name == "sequences" ? cut_sequences(table, first_token_, tokens_)
                                             : table);
    }
    if (trace_.has_requests()) {
      out_.requests(trace_.requests());
    }
  }

 private:
  // How many there are from `first` on; refuses a range that was asked for and is not there.
  std::int64_t length_of(const char* key, const char* what, std::int64_t first, std::int64_t count,
                         std::int64_t have) const {
    const bool to_the_end = count == TraceSlice{}.rows;
    refuse_if(
        (first > 0 || !to_the_end) && (first >= have || (!to_the_end && count > have - first)), {trace_.name(), 0, key},
        to_the_end ? fmt::format("nothing is left from {} on: the trace has {} {}.", first, have, what)
                   : fmt::format("{}:{} is not in the trace, which has {} {}.", first, first + count, have, what));
    return to_the_end ? have - first : count;
  }
  // The wanted layers of items of `width` values per layer.
  template <class T>
  std::vector<T> cut(std::span<const T> values, std::size_t width) const {
    const std::size_t item = static_cast<std::size_t>(trace_.info().layers()) * width;
    std::vector<T> out;
    for (std::size_t at = 0; at < values.size(); at += item) {
      for (const std::size_t l : layers_) {
        const auto from = values.begin() + (at + l * width);
        out.insert(out.end(), from, from + width);
      }
    }
    return out;
  }
  void copy_rows() {
    std::vector<double> counts(trace_.load_row_size());
    std::vector<std::int64_t> tokens(trace_.sources());
    const std::size_t width = static_cast<std::size_t>(trace_.sources()) * trace_.info().experts;
    for (std::int64_t r = 0; r < rows_; ++r) {
      trace_.read_loads<double>(first_row_ + r, 1, counts, tokens);
      out_.loads({cut<double>(counts, width), tokens});
    }
  }
  void copy_tokens() {
    constexpr std::int64_t kAtOnce = 4096;
    TraceFile::Tokens block;
    const auto k = static_cast<std::size_t>(trace_.info().top_k);
    for (std::int64_t t = 0; t < tokens_; t += kAtOnce) {
      trace_.read_tokens(first_token_ + t, std::min(kAtOnce, tokens_ - t), block);
      out_.tokens({cut<std::uint16_t>(block.experts, k), cut<float>(block.weights, k), block.sequence, block.position});
    }
  }

  const TraceFile& trace_;
  TraceFileWriter& out_;
  std::vector<std::size_t> layers_;
  std::int64_t first_row_ = 0, rows_ = 0, first_token_ = 0, tokens_ = 0;
};

bool is_hdf5(const std::string& file) {
  if (!std::filesystem::is_regular_file(file)) {
    return false;  // a folder may be a recording; the reader refuses the rest
  }
  std::ifstream in(file, std::ios::binary);
  char magic[8] = {};
  in.read(magic, 8);
  return in.gcount() == 8 && std::string_view(magic, 8) == std::string_view("\x89HDF\r\n\x1a\n", 8);
}

// Of `epsim trace generate --rows`.
void check_row_plan(const RoutingLaw& law, const RowPlan& plan) {
  const std::int64_t row = product_of({law.layers(), plan.sources, law.experts()});
  check_limit(limits::kRowValues, row, {"", 0, "sources"});
  check_limit(limits::kTraceValues, product_of({plan.steps, row}), {"", 0, "rows"});
  check_limit({"tokens of a source in a row", kMostTokens}, plan.tokens, {"", 0, "tokens-per-row"});
}

RoutingModel model_or_preset(const std::string& name) {
  return std::filesystem::exists(name) ? read_routing_model(std::filesystem::path(name)) : routing_preset(name);
}

}  // namespace

std::string trace_summary(const TraceFile& trace, const std::string& title, int width) {
  std::string out = shape_lines(trace, title);
  if (trace.load_rows() + trace.token_count() > 0) {
    const LoadWindow window = whole_window(trace);
    const SkewSummary skew = skew_summary(window);
    const double most = static_cast<double>(trace.info().experts) / trace.info().top_k;
    out += skew.assignments > 0 ? skew_lines(skew) + bar_lines(trace, window, width)
                                : "  assignments 0: every count is zero, so there is no skew to state\n";
    if (skew.max > most * (1 + 1e-6)) {  // as load sources take them
      out += fmt::format(
          "  no routing can make these counts: with top-{} of {} experts max / mean is at most {:.4g}; runs refuse "
          "them\n",
          trace.info().top_k, trace.info().experts, most);
    }
  }
  return out;
}

std::string trace_summary_json(const TraceFile& trace) {
  using Json = nlohmann::ordered_json;
  const TraceInfo& i = trace.info();
  Json out{{"format", 1},
           {"model", i.model},
           {"source", i.source},
           {"licence", i.licence},
           {"recipe", i.recipe},
           {"layers", i.layers()},
           {"experts", i.experts},
           {"top_k", i.top_k},
           {"load_rows", trace.load_rows()},
           {"sources", trace.sources()},
           {"tokens", trace.token_count()},
           {"requests", trace.has_requests() ? trace.requests().trace.requests.size() : 0}};
  if (trace.load_rows() + trace.token_count() == 0) {
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  const LoadWindow window = whole_window(trace);
  const SkewSummary s = skew_summary(window);
  out["assignments"] = s.assignments;
  out["max_over_mean"] = {{"least", s.min}, {"median", s.median}, {"mean", s.mean}, {"p90", s.p90}, {"most", s.max}};
  out["top1_share"] = s.average.top1_share;
  out["top2_share"] = s.average.top2_share;
  out["top_tenth_share"] = s.average.top_tenth_share;
  out["gini"] = s.average.gini;
  out["effective_experts"] = s.average.effective_experts;
  out["balancedness"] = Json::array();
  for (std::size_t g = 0; g < kBalancednessGpus.size(); ++g) {
    if (s.average.balancedness[g]) {
      out["balancedness"].push_back({{"gpus", kBalancednessGpus[g]},
                                     {"mean", *s.average.balancedness[g]},
                                     {"worst_layer", *s.worst_balancedness[g]}});
    }
  }
  for (int l = 0; l < window.layers(); ++l) {
    out["by_layer"].push_back(
        {{"layer", i.layer_numbers[l]}, {"max_over_mean", layer_skew(window.layer(l)).max_over_mean}});
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string trace_heatmap_svg(const TraceFile& trace, int every) {
  refuse_if(trace.load_rows() + trace.token_count() == 0, {trace.name(), 0, ""},
            "the trace holds neither load rows nor tokens, so there is nothing to draw.");
  const LoadWindow window = whole_window(trace);
  constexpr int kCell = 5, kLeft = 60, kTop = 40;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"9\">\n"
      "<text x=\"{}\" y=\"16\" font-size=\"12\">Expert load over the layer's mean (white 0, dark 4 and above)</text>\n"
      "<text x=\"{}\" y=\"32\">expert 0 to {}</text>\n",
      kLeft + kCell * window.experts() + 20, kTop + kCell * ((window.layers() + every - 1) / every) + 20, kLeft, kLeft,
      window.experts() - 1);
  for (int l = 0; l < window.layers(); l += every) {
    const int number = trace.info().layer_numbers[l], y = kTop + l / every * kCell;
    if (l / every % 5 == 0) {
      out += fmt::format("<text x=\"4\" y=\"{}\">layer {}</text>\n", y + kCell, number);
    }
    const double mean = window.total(l) / window.experts();
    for (int e = 0; e < window.experts(); ++e) {
      const double over = mean > 0 ? window.layer(l)[e] / mean : 0.0;
      out += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>layer {}, expert {}: {:.3g} "
          "x mean</title></rect>\n",
          kLeft + e * kCell, y, kCell, kCell, shade(over), number, e, over);
    }
  }
  return out + "</svg>\n";
}

void trace_import(const std::filesystem::path& from, const std::string& format, const ImportOptions& options,
                  const std::filesystem::path& to) {
  TraceFileWriter writer(to);
  import_trace(from, format, options, writer);
  writer.commit();
}

void trace_convert(const std::filesystem::path& from, const std::string& format, const std::filesystem::path& to) {
  const TraceFile trace(from);
  AtomicFile whole(to);
  std::ofstream out(whole.path(), std::ios::binary | std::ios::trunc);
  export_trace(trace, format, out);
  out.close();
  whole.commit(!out.fail());
}

void trace_slice(const std::filesystem::path& from, const TraceSlice& slice, const std::filesystem::path& to) {
  const TraceFile trace(from);
  TraceFileWriter writer(to);
  Slicer(trace, slice, writer).run();
  writer.commit();
}

OpenedTrace::OpenedTrace(const std::string& file, const std::string& format, const ImportOptions& import)
    : path_(file) {
  if (is_hdf5(file)) {
    return;
  }
  folder_.emplace("epsim-trace-");
  path_ = *folder_ / "trace.h5";
  trace_import(file, format, import, path_);
}

RoutingModel trace_fit(const std::filesystem::path& from, const std::string& name) {
  TraceCollector collector;
  TraceFile(from).copy_to(collector);
  return collector.fit({.name = name});
}

TraceProfile trace_profile(const std::filesystem::path& from) {
  TraceProfiler profiler;
  TraceFile(from).copy_to(profiler);
  return profiler.finish();
}

std::string trace_comparison_json(const ProfileComparison& compared, const TraceProfile& a, const TraceProfile& b,
                                  bool by_layer) {
  nlohmann::ordered_json out{{"format", 1}, {"a", compared.a}, {"b", compared.b}, {"goodness", compared.goodness}};
  for (const ComparisonRow& row : compared.rows) {
    out["statistics"].push_back({{"statistic", row.name},
                                 {"a", row.a},
                                 {"b", row.b},
                                 {row.relative ? "deviation_share" : "deviation", row.deviation},
                                 {"deviation_by_layer", row.by_layer}});
  }
  for (std::size_t l = 0; by_layer && l < a.layers.size(); ++l) {
    out["layers"].push_back({{"layer", a.info.layer_numbers[l]},
                             {"a_max_over_mean", a.layers[l].max_over_mean},
                             {"b_max_over_mean", b.layers[l].max_over_mean}});
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void trace_generate(const GenerateRequest& request, const std::filesystem::path& to) {
  refuse_if(request.rows.has_value() == request.tokens.has_value(), "",
            "say what to generate: either --rows N or --tokens N.");
  const RoutingLaw law(model_or_preset(request.model));
  const auto positive = [](const char* name, std::int64_t value) {
    refuse_if(value < 1, name, fmt::format("{} is less than 1.", value));
    return value;
  };
  if (request.rows) {
    const RowPlan plan{.first_step = 0,
                       .steps = positive("rows", *request.rows),
                       .sources = static_cast<int>(positive("sources", request.sources)),
                       .tokens = positive("tokens-per-row", request.tokens_per_row)};
    check_row_plan(law, plan);
    TraceFileWriter writer(to);
    generate_loads(law, plan, request.seed, writer);
    writer.commit();
    return;
  }
  const std::int64_t tokens = positive("tokens", *request.tokens);
  check_limit(limits::kTraceValues, product_of({tokens, law.layers(), law.top_k()}), {"", 0, "tokens"});
  TraceFileWriter writer(to);
  generate_tokens(law, {.first_sequence = 0, .tokens = tokens}, request.seed, writer);
  writer.commit();
}

}  // namespace epsim
