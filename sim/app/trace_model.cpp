// `epsim trace fit | generate | compare`.
#include <fmt/format.h>

#include <iostream>

#include "sim/app/trace_verbs.h"
#include "sim/core/refuse.h"
#include "traces/commands/trace_commands.h"
#include "traces/routing_model/compare.h"
#include "traces/routing_model/presets.h"

namespace epsim::app {

int trace_fit_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_file_output(options, "the model to write, - for standard output");
  options.add_options()("name", po::value<std::string>()->default_value(""),
                        "of the model; default: the file's, without its ending");
  add_import_options(options);
  const auto values =
      parse_words(words,
                  "epsim trace fit TRACE -o MODEL.yaml\n\n"
                  "Fits a routing model. From per-token routing every part is fitted; from loads alone\n"
                  "popularity is, and the model lists what is assumed.\n",
                  options, {"trace"});
  const FileOutput out(values);
  const std::string file = argument(values, "trace", "the trace to fit");
  const std::deque<OpenedTrace> opened = open_traces(values, {file});
  const std::string name = values["name"].as<std::string>();
  out.write(
      to_yaml(trace_fit(opened.front().path(), name.empty() ? std::filesystem::path(file).stem().string() : name)),
      "model");
  return 0;
}

int trace_generate_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_file_output(options, "the trace to write");
  options.add_options()("rows", po::value<std::int64_t>(), "load rows (steps) to generate")(
      "sources", po::value<int>()->default_value(8), "source ranks of a row")(
      "tokens-per-row", po::value<std::int64_t>()->default_value(4096), "tokens of each source in a row")(
      "tokens", po::value<std::int64_t>(), "single tokens to generate, instead of rows")(
      "seed", po::value<std::uint64_t>()->default_value(1), "seed of every random stream");
  std::string presets;
  for (const PresetEntry& entry : routing_presets()) {
    presets += fmt::format(" {}", entry.name);
  }
  const auto values = parse_words(
      words, "epsim trace generate MODEL.yaml|PRESET -o TRACE.h5 --rows N | --tokens N\n\nPresets:" + presets + "\n",
      options, {"model"});
  GenerateRequest request{.model = file_argument(values, "model", "a model file or a preset")};
  for (const auto& [option, number] : {std::pair{"rows", &request.rows}, {"tokens", &request.tokens}}) {
    if (values.count(option) > 0) {
      *number = values[option].as<std::int64_t>();
    }
  }
  for (const char* option : {"sources", "tokens-per-row"}) {
    refuse_if(request.tokens && !values[option].defaulted(), option,
              "single tokens have no rows; it goes with --rows.");
  }
  request.sources = values["sources"].as<int>();
  request.tokens_per_row = values["tokens-per-row"].as<std::int64_t>();
  request.seed = static_cast<Seed>(values["seed"].as<std::uint64_t>());
  const std::filesystem::path out = hdf5_output(values);
  trace_generate(request, out);
  std::cout << "trace: " << out.string() << "\n";
  return 0;
}

int trace_compare_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("by-layer", po::bool_switch(), "max / mean of every layer too");
  add_import_options(options);
  add_json_option(options, "the statistics of both traces, their deviations and, with --by-layer, every layer's");
  const auto values = parse_words(words,
                                  "epsim trace compare A B [--by-layer]\n\n"
                                  "The statistics of two traces that matter for expert parallelism, side by side.\n",
                                  options, {"a", "b"});
  const JsonOutput json(values);
  const std::deque<OpenedTrace> opened =
      open_traces(values, {argument(values, "a", "two traces"), argument(values, "b", "a second trace")});
  const TraceProfile a = trace_profile(opened.front().path()), b = trace_profile(opened.back().path());
  const ProfileComparison compared = compare(a, b);
  const bool by_layer = values["by-layer"].as<bool>();
  std::cout << to_text(compared);
  if (by_layer) {
    std::cout << "\n" << layers_to_text(a, b);
  }
  json.print(trace_comparison_json(compared, a, b, by_layer));
  return 0;
}

}  // namespace epsim::app
