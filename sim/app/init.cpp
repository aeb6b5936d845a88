// `epsim init`: writes a scenario with what the engine chooses spelled out in comments.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "sim/app/command_line.h"
#include "sim/cluster/prepare.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/scenario/new_scenario.h"
#include "sim/scheduler/engines.h"

namespace epsim::app {

namespace {

// N:M, or neither.
void read_pd(const std::string& text, NewScenario& out) {
  std::istringstream in(text);
  char colon = 0;
  in >> out.prefill >> colon >> out.decode;
  refuse_if(in.fail() || colon != ':' || !in.eof() || out.prefill < 1 || out.decode < 1, "pd",
            fmt::format("'{}' is not PREFILL:DECODE in nodes, each at least 1, as in 4:8.", text));
}

// Lines of a section that have a default with a source, as comments.
std::string defaults_of(const std::string& resolved, const std::string& section) {
  std::istringstream in(resolved);
  std::string out;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != ' ') {
      inside = line.starts_with(section + ":");
    } else if (inside && line.find("# default: ") != std::string::npos && line.starts_with("  ") && line[2] != ' ') {
      out += "  # " + line.substr(2) + "\n";
    }
  }
  return out;
}

// "key: value" of each --serving.
std::vector<std::string> serving_of(const po::variables_map& values) {
  std::vector<std::string> out;
  if (values.count("serving") > 0) {
    for (const std::string& text : values["serving"].as<std::vector<std::string>>()) {
      const std::size_t equals = text.find('=');
      refuse_if(equals == 0 || equals >= text.size() - 1, "serving",
                fmt::format("'{}' is not KEY=VALUE, as in mem_fraction_static=0.8.", text));
      out.push_back(fmt::format("{}: {}", text.substr(0, equals), text.substr(equals + 1)));
    }
  }
  return out;
}

// What the engine reserves may leave nothing, which a key that --serving gives mends.
Scenario read_new(const NewScenario& r) {
  try {
    return read_document(scenario_document(r));
  } catch (const InputError& e) {
    if (e.place.key == "cluster.node" && !r.dtype.empty()) {  // the node is known: it has no kernels of this type
      throw InputError({"", 0, "dtype"}, e.problem);
    }
    constexpr std::string_view kSection = "serving.";
    const std::string key = e.place.key.starts_with(kSection) ? e.place.key.substr(kSection.size()) : "";
    if (key.empty() || std::ranges::any_of(r.serving, [&](const auto& line) { return line.starts_with(key + ":"); })) {
      throw;
    }
    throw InputError({"", 0, e.place.key}, fmt::format("{} Give it by --serving KEY=VALUE.", e.problem));
  }
}

std::string with_defaults(const NewScenario& r) {
  const Scenario plain = read_new(r);
  const std::string serving = defaults_of(plain.resolved, "serving"),
                    dispatch = r.prefill > 0 ? "" : defaults_of(plain.resolved, "dispatch");
  return scenario_document(r, "  # What the engine chooses here; take the '#' away to change it.\n" + serving,
                           dispatch);
}

bool fits(const NewScenario& request) {
  try {
    const Scenario read = read_new(request);
    prepare_run(read, read.policies.front());
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// Whether weights fit. Where an engine's own reserve is what keeps them from it, the knob that makes it smaller; where
// attention on every GPU is, GPUs that share it.
void check_fits(const Scenario& written, const NewScenario& request) {
  try {
    prepare_run(written, written.policies.front());
  } catch (const DoesNotFit& misfit) {
    const std::string_view knob = find_engine(written.serving.engine).reserve_knob;
    for (int value = 256; !knob.empty() && value >= 8; value /= 2) {
      NewScenario less = request;
      less.serving.push_back(fmt::format("{}: {}", knob, value));
      if (fits(less)) {
        throw InputError({}, fmt::format("{} So does --serving {}={}: {} sets less memory aside then.", misfit.problem,
                                         knob, value, written.serving.engine));
      }
    }
    for (int tp = 2 * request.attention_tp; tp <= written.cluster.node.gpus; tp *= 2) {
      NewScenario shared = request;
      shared.attention_tp = tp;
      if (fits(shared)) {
        throw InputError({}, fmt::format("{} So does --attention-tp {}: that many GPUs share attention's weights.",
                                         misfit.problem, tp));
      }
    }
    throw;
  }
}

// GPUs used of each node; 0: all. An instance has a power of two of a rack's 72, which divide neither heads nor experts.
int gpus_used(const po::variables_map& values, const NodeSpec& node) {
  if (values.count("gpus") == 0) {
    refuse_if(node.gpus_per_host < node.gpus, "gpus",
              fmt::format("{} is a rack of {} GPUs: say how many of them an instance has, as "
                          "in --gpus 8 or --gpus 64.",
                          node.name, node.gpus));
    return 0;
  }
  const int gpus = values["gpus"].as<int>();
  refuse_if(gpus < 1 || gpus > node.gpus, "gpus",
            fmt::format("{} GPUs of each node: {} has 1 to {}.", gpus, node.name, node.gpus));
  return gpus;
}

// A file's path holds wherever the scenario is written to; names stay as they are. A folder stands for its config.json.
std::string from_anywhere(const std::string& named) {
  std::filesystem::path file = shipped_file(named);
  if (std::filesystem::is_directory(file)) {
    file /= "config.json";
  }
  return std::filesystem::is_regular_file(file) ? std::filesystem::absolute(file).lexically_normal().string() : named;
}

// As from_anywhere(), of a model: a folder that is none is told so, unless the catalogue has its name.
std::string model_from_anywhere(const std::string& named) {
  std::string out = from_anywhere(named);
  if (out == named && std::filesystem::is_directory(shipped_file(named))) {
    try {
      find_model(named);
    } catch (const InputError&) {
      throw InputError({named, 0, "model"}, "no config.json in it.");
    }
  }
  return out;
}

}  // namespace

int init_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("engine", po::value<std::string>()->default_value("sglang"), "epsim list engines")(
      "model", po::value<std::string>(), "epsim list models, or a Hugging Face config.json or its folder")(
      "node", po::value<std::string>(), "epsim list hardware")("nodes", po::value<int>()->default_value(1),
                                                               "nodes of the instance")(
      "gpus", po::value<int>(), "GPUs used of each node, as 8 of a rack's 72; default: all, of a rack required")(
      "attention-tp", po::value<int>()->default_value(1), "GPUs of an attention DP rank; 1: DP attention")(
      "pd", po::value<std::string>(), "nodes of a prefill and of a decode instance, as in 4:8, in place of --nodes")(
      "serving", po::value<std::vector<std::string>>(),
      "KEY=VALUE of the section `serving`, as in mem_fraction_static=0.8; repeatable")(
      "dtype", po::value<std::string>()->default_value(""),
      "of the weights; default: a config.json's own; of a catalogue model its own where it is quantised, else fp8 "
      "where the GPU has it");
  add_file_output(options, "the scenario's file; default: -, standard output");
  const auto values = parse_words(words,
                                  "epsim init --model MODEL --node NODE [--nodes N | --pd P:D] [--gpus N] [options]\n\n"
                                  "Writes a scenario that epsim validate and epsim run accept, with the engine's\n"
                                  "defaults on that hardware as comments, each with its source.\n",
                                  options, {});
  for (const char* key : {"model", "node"}) {
    refuse_if(values.count(key) == 0, key,
              "this option is required, as in: epsim init --model deepseek-r1 --node dgx-h200");
  }
  NewScenario request{values["engine"].as<std::string>(), model_from_anywhere(values["model"].as<std::string>()),
                      from_anywhere(values["node"].as<std::string>()), values["dtype"].as<std::string>()};
  request.serving = serving_of(values);
  request.nodes = values["nodes"].as<int>();
  refuse_if(request.nodes < 1, "nodes", fmt::format("{} nodes: an instance has at least one.", request.nodes));
  request.attention_tp = values["attention-tp"].as<int>();
  refuse_if(request.attention_tp < 1, "attention-tp",
            fmt::format("{}: a DP rank has at least one GPU.", request.attention_tp));
  refuse_if(!values["attention-tp"].defaulted() && find_model(request.model).dense(), "attention-tp",
            "a dense model's instance is one DP rank of all its GPUs; --gpus says how many.");
  request.gpus_per_node = gpus_used(values, find_node(request.node).spec);
  if (values.count("pd") > 0) {
    refuse_if(!values["nodes"].defaulted(), "nodes",
              "--pd says how many nodes each of its two instances has; give one of the two.");
    read_pd(values["pd"].as<std::string>(), request);
  }
  const FileOutput out(values, "-");
  request = with_dtype(request);
  const std::string text = with_defaults(request);
  const Scenario written = read_document(text);
  check_fits(written, request);
  print_warnings(written);
  out.write(text, "scenario");
  if (!out.to_standard_output()) {
    std::cout << (request.dtype_note.empty() ? "" : "model.dtype is " + request.dtype_note + "\n");
    std::cout << "next: epsim validate " << out.path().string() << "\n";
  }
  return 0;
}

}  // namespace epsim::app
