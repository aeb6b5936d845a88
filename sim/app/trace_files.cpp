// `epsim trace info | import | convert | slice`.
#include <fmt/format.h>

#include <iostream>
#include <sstream>

#include "sim/app/trace_verbs.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "traces/commands/trace_commands.h"
#include "traces/export/exporter.h"

namespace epsim::app {

namespace {

// "a:b": from a up to b, b left out; either may be missing.
void read_range(const po::variables_map& values, const char* option, std::int64_t& first, std::int64_t& count) {
  if (values.count(option) == 0) {
    return;
  }
  const std::string text = values[option].as<std::string>();
  const std::size_t colon = text.find(':');
  refuse_if(colon == std::string::npos, option,
            fmt::format("'{}' is not a range; write first:end, the end left out.", text));
  first = colon > 0 ? whole_number(text.substr(0, colon), option) : 0;
  if (colon + 1 < text.size()) {
    const std::int64_t end = whole_number(text.substr(colon + 1), option);
    refuse_if(end <= first, option, fmt::format("the range '{}' is empty.", text));
    count = end - first;
  }
}

template <class Entries>
std::string names_of(const Entries& entries) {
  std::string out;
  for (const auto& entry : entries) {
    out += fmt::format("\n  {:<16} {}", entry.name, entry.summary);
  }
  return out;
}

}  // namespace

int trace_info_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("heatmap", po::value<std::string>(), "write layer x expert loads as an SVG picture")(
      "overwrite", po::bool_switch(), "replace the picture if it exists");
  add_import_options(options);
  add_json_option(options, "shape, totals, skew and the max / mean of every layer");
  const auto values = parse_words(words,
                                  "epsim trace info TRACE [--heatmap OUT.svg]\n\n"
                                  "TRACE is a file in our format, or a recording that `epsim trace import` reads.\n",
                                  options, {"trace"});
  const std::string file = argument(values, "trace", "the trace to look at");
  const std::deque<OpenedTrace> opened = open_traces(values, {file});
  const TraceFile trace(opened.front().path());
  const JsonOutput json(values);
  std::cout << trace_summary(trace, file);
  json.print(trace_summary_json(trace));
  if (values.count("heatmap") > 0) {
    const std::filesystem::path picture = values["heatmap"].as<std::string>();
    refuse_if(std::filesystem::exists(picture) && !values["overwrite"].as<bool>(), {picture.string(), 0, ""},
              "this file exists; name another, or add --overwrite to replace it.");
    write_file_atomically(picture, trace_heatmap_svg(trace));
    std::cout << "heatmap: " << picture.string() << "\n";
  }
  return 0;
}

int trace_import_words(const std::vector<std::string>& words) {
  po::options_description options("options; figures that the file does not say about itself");
  add_file_output(options, "the trace to write");
  add_import_options(options);
  const auto values = parse_words(
      words, "epsim trace import RECORDING -o TRACE.h5 [options]\n\nFormats:" + names_of(trace_importers()) + "\n",
      options, {"recording"});
  const std::filesystem::path out = hdf5_output(values);
  trace_import(file_argument(values, "recording", "the recording to import"), recording_format(values),
               import_options(values), out);
  std::cout << "trace: " << out.string() << "\n";
  return 0;
}

int trace_convert_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_file_output(options, "the file to write, - for standard output");
  options.add_options()("format", po::value<std::string>(), "to write");
  const auto values = parse_words(
      words, "epsim trace convert TRACE.h5 --format NAME -o OUT\n\nFormats:" + names_of(trace_exporters()) + "\n",
      options, {"trace"});
  const FileOutput out(values);
  const std::string trace = file_argument(values, "trace", "the trace to convert"),
                    format = argument(values, "format", "the format with --format");
  if (out.to_standard_output()) {
    std::ostringstream text;
    export_trace(TraceFile(trace), format, text);
    out.write(text.str(), "written");
    return 0;
  }
  trace_convert(trace, format, out.path());
  std::cout << "written: " << out.path().string() << "\n";
  return 0;
}

int trace_slice_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_file_output(options, "the trace to write");
  options.add_options()("rows", po::value<std::string>(), "load rows first:end, the end left out")(
      "tokens", po::value<std::string>(), "tokens first:end, the end left out")(
      "layers", po::value<std::string>(), "model layer numbers, separated by commas");
  const auto values = parse_words(words, "epsim trace slice TRACE.h5 -o OUT.h5 [options]\n", options, {"trace"});
  TraceSlice slice;
  read_range(values, "rows", slice.first_row, slice.rows);
  read_range(values, "tokens", slice.first_token, slice.tokens);
  slice.layers = number_list(values, "layers");
  const std::filesystem::path out = hdf5_output(values);
  trace_slice(file_argument(values, "trace", "the trace to cut"), slice, out);
  std::cout << "trace: " << out.string() << "\n";
  return 0;
}

}  // namespace epsim::app
