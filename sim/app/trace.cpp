// `epsim trace`: looks at traces, brings them in, cuts them, fits models to them and samples those.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "models/catalogue/model_catalogue.h"
#include "sim/app/trace_verbs.h"
#include "sim/core/files.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"

namespace epsim::app {

namespace {

constexpr Verb kTraceVerbs[] = {
    {"info", "shape, totals and skew by layer; a heatmap as SVG", trace_info_words},
    {"import", "another program's recording into our format", trace_import_words},
    {"convert", "a trace into another program's format", trace_convert_words},
    {"slice", "some rows, tokens or layers of a trace", trace_slice_words},
    {"fit", "a routing model from a trace", trace_fit_words},
    {"generate", "a trace from a routing model or a preset", trace_generate_words},
    {"compare", "the statistics of two traces side by side", trace_compare_words},
};

void print_trace_help() {
  std::cout << "epsim trace <what> [arguments]\n\n";
  for (const Verb& verb : kTraceVerbs) {
    std::cout << fmt::format("  {:<9} {}\n", verb.name, verb.summary);
  }
  std::cout << "\n`epsim trace <what> --help` explains each. The format is described in traces/FORMAT.md.\n";
}

}  // namespace

void add_import_options(po::options_description& options) {
  options.add_options()("format", po::value<std::string>()->default_value("auto"),
                        "of the recording: auto, or one that `epsim trace import --help` lists")(
      "model", po::value<std::string>()->default_value(""),
      "name of the model; one of epsim list models knows its top-k")("model-layers", po::value<int>()->default_value(0),
                                                                     "transformer layers of the model")(
      "experts", po::value<int>()->default_value(0), "routed experts per layer")(
      "top-k", po::value<int>()->default_value(0), "experts per token")("layers", po::value<int>()->default_value(0),
                                                                        "recorded layers, for formats without a shape")(
      "layer-numbers", po::value<std::string>(), "model layer of each recorded one, separated by commas")(
      "sequences", po::value<std::string>()->default_value(""),
      "table of sequences that goes with binary tokens or a NumPy array")(
      "source", po::value<std::string>()->default_value(""), "where the data come from")(
      "licence", po::value<std::string>()->default_value(""), "under which terms");
}

std::string recording_format(const po::variables_map& values) { return values["format"].as<std::string>(); }

ImportOptions import_options(const po::variables_map& values) {
  const auto text = [&](const char* name) { return values[name].as<std::string>(); };
  ImportOptions import;
  import.model = text("model");
  import.source = text("source");
  import.licence = text("licence");
  import.model_layers = values["model-layers"].as<int>();
  import.experts = values["experts"].as<int>();
  import.top_k = values["top-k"].as<int>();
  import.layers = values["layers"].as<int>();
  import.layer_numbers = number_list(values, "layer-numbers");
  import.sequences = shipped_file(text("sequences"));
  if (const std::optional<MoeSpec> model = shipped_model(import.model)) {
    import.usual_top_k = model->top_k;
  }
  return import;
}

std::deque<OpenedTrace> open_traces(const po::variables_map& values, const std::vector<std::string>& files) {
  std::deque<OpenedTrace> out;
  for (const std::string& file : files) {
    out.emplace_back(shipped_file(file).string(), recording_format(values), import_options(values));
  }
  if (std::none_of(out.begin(), out.end(), [](const OpenedTrace& t) { return t.imported(); })) {
    po::options_description of_recordings;
    add_import_options(of_recordings);
    for (const auto& option : of_recordings.options()) {
      const std::string& name = option->long_name();
      refuse_if(values.count(name) > 0 && !values[name].defaulted(), {files.front(), 0, "--" + name},
                "this trace says all that about itself; the option is for recordings of other programs.");
    }
  }
  return out;
}

std::int64_t whole_number(const std::string& text, const std::string& option) {
  const std::optional<std::int64_t> value = number_from<std::int64_t>(text);
  refuse_if(!value || *value < 0, option, fmt::format("'{}' is not a whole number of 0 or more.", text));
  return *value;
}

std::vector<int> number_list(const po::variables_map& values, const char* option) {
  return mapped(option_list(values, option, "whole numbers"),
                [&](const std::string& word) { return static_cast<int>(whole_number(word, option)); });
}

std::string argument(const po::variables_map& values, const std::string& name, const std::string& what) {
  refuse_if(values.count(name) == 0, "", fmt::format("name {}; --help shows how.", what));
  return values[name].as<std::string>();
}

std::string file_argument(const po::variables_map& values, const std::string& name, const std::string& what) {
  return shipped_file(argument(values, name, what)).string();
}

int trace_verb(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    print_trace_help();
    return words.empty() ? 2 : 0;
  }
  return call_verb(kTraceVerbs, "trace verb", words);
}

}  // namespace epsim::app
