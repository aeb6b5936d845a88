// `epsim trace fit | generate | compare`.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "sim/app/trace_verbs.h"
#include "sim/core/files.h"
#include "traces/model/compare.h"
#include "traces/model/fit.h"
#include "traces/model/model_load_source.h"
#include "traces/model/presets.h"
#include "traces/model/routing_law.h"
#include "traces/model/token_sampler.h"
#include "traces/trace_file.h"

namespace epsim::app {

namespace po = boost::program_options;

namespace {

TraceProfile profile_of(const std::string& file, const po::variables_map& values) {
  const OpenedTrace opened(file, recording_format(values), import_options(values));
  TraceProfiler profiler;
  TraceFile(opened.path()).copy_to(profiler);
  return profiler.finish();
}

RoutingModel model_or_preset(const std::string& name) {
  return std::filesystem::exists(name) ? read_routing_model(std::filesystem::path(name)) : routing_preset(name);
}

}  // namespace

int trace_fit_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_file_output(options);
  options.add_options()("name", po::value<std::string>()->default_value(""),
                        "of the model; default: the file's, without its ending");
  add_import_options(options);
  const auto values =
      parse_words(words,
                  "epsim trace fit TRACE -o MODEL.yaml\n\n"
                  "Fits a routing model. From per-token routing every part is fitted; from loads alone\n"
                  "popularity is, and the model lists what is assumed.\n",
                  options, {"trace"});
  if (!values) {
    return 0;
  }
  const std::filesystem::path out = output_file(*values);
  const std::string file = argument(*values, "trace", "the trace to fit");
  const OpenedTrace opened(file, recording_format(*values), import_options(*values));
  TraceCollector collector;
  TraceFile(opened.path()).copy_to(collector);
  FitOptions fit;
  fit.name = (*values)["name"].as<std::string>();
  if (fit.name.empty()) {
    fit.name = std::filesystem::path(file).stem().string();
  }
  write_file_atomically(out, to_yaml(collector.fit(fit)));
  std::cout << "model: " << out.string() << "\n";
  return 0;
}

int trace_generate_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_file_output(options);
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
  if (!values) {
    return 0;
  }
  const bool rows = values->count("rows") > 0, tokens = values->count("tokens") > 0;
  if (rows == tokens) {
    throw InputError({}, "say what to generate: either --rows N or --tokens N.");
  }
  const std::filesystem::path out = output_file(*values);
  const RoutingLaw law(model_or_preset(argument(*values, "model", "a model file or a preset")));
  const auto seed = static_cast<Seed>((*values)["seed"].as<std::uint64_t>());
  const auto positive = [&](const char* name, std::int64_t value) {
    if (value < 1) {
      throw InputError({"", 0, name}, fmt::format("{} is less than 1.", value));
    }
    return value;
  };
  TraceFileWriter writer(out);
  if (rows) {
    generate_loads(law,
                   {.first_step = 0,
                    .steps = positive("rows", (*values)["rows"].as<std::int64_t>()),
                    .sources = static_cast<int>(positive("sources", (*values)["sources"].as<int>())),
                    .tokens = positive("tokens-per-row", (*values)["tokens-per-row"].as<std::int64_t>())},
                   seed, writer);
  } else {
    generate_tokens(law, {.first_sequence = 0, .tokens = positive("tokens", (*values)["tokens"].as<std::int64_t>())},
                    seed, writer);
  }
  writer.commit();
  std::cout << "trace: " << out.string() << "\n";
  return 0;
}

int trace_compare_words(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("by-layer", po::bool_switch(), "max / mean of every layer too");
  add_import_options(options);
  const auto values = parse_words(words,
                                  "epsim trace compare A B [--by-layer]\n\n"
                                  "The statistics of two traces that matter for expert parallelism, side by side.\n",
                                  options, {"a", "b"});
  if (!values) {
    return 0;
  }
  const TraceProfile a = profile_of(argument(*values, "a", "two traces"), *values);
  const TraceProfile b = profile_of(argument(*values, "b", "a second trace"), *values);
  std::cout << to_text(compare(a, b));
  if ((*values)["by-layer"].as<bool>()) {
    std::cout << "\n" << layers_to_text(a, b);
  }
  return 0;
}

}  // namespace epsim::app
