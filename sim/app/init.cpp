// `epsim init`: writes a scenario with what the engine chooses spelled out in comments.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <sstream>

#include "sim/app/command_line.h"
#include "sim/scenario/read_scenario.h"
#include "sim/scenario/scenario.h"

namespace epsim::app {

namespace po = boost::program_options;

namespace {

struct InitOptions {
  std::string engine, model, node, dtype;
  int nodes = 1, prefill = 0, decode = 0;
};

// N:M, or neither.
void read_pd(const std::string& text, InitOptions& out) {
  std::istringstream in(text);
  char colon = 0;
  if (!(in >> out.prefill >> colon >> out.decode) || colon != ':' || !in.eof() || out.prefill < 1 || out.decode < 1) {
    throw InputError({"", 0, "pd"}, fmt::format("'{}' is not PREFILL:DECODE in nodes, as in 4:8.", text));
  }
}

std::string document(const InitOptions& r, const std::string& serving, const std::string& dispatch) {
  const bool apart = r.prefill > 0;
  const int nodes = apart ? r.prefill + r.decode : r.nodes;
  std::string out = fmt::format(
      "# {0} on {1} x {2}, served by {3}. Written by epsim init; nothing in it is measured on your cluster.\n"
      "#   epsim validate FILE\n"
      "#   epsim compare FILE --policies contiguous,base,eplb\n"
      "#   epsim goodput FILE --policies base,eplb --slo 'ttft.p99<2s,tpot.p99<50ms'\n"
      "# What to change first: requests (your rate and lengths), then loads (a recording of your experts).\n"
      "name: {0}-{2}\nseed: 1\n\n"
      "cluster:\n"
      "  node: {2}  # epsim list hardware; or the path of a file of your own\n"
      "  nodes: {4}{5}\n\n"
      "model:\n"
      "  architecture: {7}  # epsim list models; or the path of a Hugging Face config.json\n"
      "  dtype: {6}  # of the weights: bf16, or fp8 where the GPU has it\n\n",
      std::filesystem::path(r.model).stem().string(), nodes, r.node, r.engine, apart ? r.prefill : nodes,
      apart ? "  # of a prefill instance" : "", r.dtype, r.model);
  out +=
      "parallelism:\n"
      "  attention_tp: 1  # GPUs of an attention DP rank: 1 = DP attention, as large deployments run\n"
      "  shared_experts: replicated\n  dense_ffn: replicated\n  embedding: replicated\n\n";
  out += fmt::format("serving:\n  engine: {}  # epsim list engines\n{}\n", r.engine, serving);
  out += "dispatch:  # epsim list transports\n" + (dispatch.empty() ? "  {}\n" : dispatch) + "\n";
  if (apart) {
    out += fmt::format(
        "deployment:\n  prefill: {{instances: 1, nodes: {}, serving: {{}}}}\n"
        "  decode: {{instances: 1, nodes: {}, serving: {{}}}}\n\n",
        r.prefill, r.decode);
  }
  out += fmt::format(
      "requests:  # epsim list readers; or a recorded trace: {{kind: azure_csv, path: ...}}\n"
      "  kind: poisson\n  rate: {}/s  # epsim goodput finds the highest that is served\n  count: 500\n"
      "  input_tokens: 2000\n  output_tokens: 500\n\n",
      nodes);
  out +=
      "loads:  # what the run is scored on; a recording of yours: {kind: trace_file, path: ...}, from epsim trace "
      "import\n"
      "  kind: skew  # synthetic: the hottest expert of a layer has low to high times the mean\n"
      "  low: 1.5\n  high: 4.0\n  high_share: 0.3\n\n"
      "plan_loads:  # what policies plan from\n  kind: skew\n  low: 1.5\n  high: 4.0\n  high_share: 0.3\n\n"
      "policy: base  # of epsim run; epsim list policies\n";
  return out;
}

Scenario read(const std::string& text) { return read_scenario(Config::from_text(text, "the new scenario"), {}); }

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

// fp8 where the node's kernels were measured in it.
InitOptions with_dtype(InitOptions r) {
  if (!r.dtype.empty()) {
    return r;
  }
  r.dtype = "fp8";
  try {
    read(document(r, "", ""));
  } catch (const InputError& e) {
    if (e.place.key != "cluster.node") {
      throw;
    }
    r.dtype = "bf16";
  }
  return r;
}

std::string new_scenario(const InitOptions& r) {
  const Scenario plain = read(document(r, "", ""));
  const std::string serving = defaults_of(plain.resolved, "serving"),
                    dispatch = r.prefill > 0 ? "" : defaults_of(plain.resolved, "dispatch");
  return document(r, "  # What the engine chooses here; take the '#' away to change it.\n" + serving, dispatch);
}

}  // namespace

int init_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("engine", po::value<std::string>()->default_value("sglang"), "epsim list engines")(
      "model", po::value<std::string>(), "epsim list models, or a Hugging Face config.json")(
      "node", po::value<std::string>(), "epsim list hardware")("nodes", po::value<int>()->default_value(1),
                                                               "nodes of the instance")(
      "pd", po::value<std::string>(), "nodes of a prefill and of a decode instance, as in 4:8, in place of --nodes")(
      "dtype", po::value<std::string>()->default_value(""), "bf16 or fp8; default: fp8 where the GPU has it");
  add_file_output(options, "the scenario's file; default: -, standard output");
  const auto values = parse_words(words,
                                  "epsim init --model MODEL --node NODE [--nodes N | --pd P:D] [options]\n\n"
                                  "Writes a scenario that epsim validate and epsim run accept, with the engine's\n"
                                  "defaults on that hardware as comments, each with its source.\n",
                                  options, {});
  if (!values) {
    return 0;
  }
  for (const char* key : {"model", "node"}) {
    if (values->count(key) == 0) {
      throw InputError({"", 0, key}, "this option is required, as in: epsim init --model deepseek-r1 --node dgx-h200");
    }
  }
  InitOptions request{(*values)["engine"].as<std::string>(), (*values)["model"].as<std::string>(),
                      (*values)["node"].as<std::string>(), (*values)["dtype"].as<std::string>()};
  request.nodes = (*values)["nodes"].as<int>();
  if (values->count("pd") > 0) {
    read_pd((*values)["pd"].as<std::string>(), request);
  }
  const FileOutput out(*values, "-");
  const std::string text = new_scenario(with_dtype(request));
  print_warnings(read(text));
  out.write(text, "scenario");
  if (!out.to_standard_output()) {
    std::cout << "next: epsim validate " << out.path().string() << "\n";
  }
  return 0;
}

}  // namespace epsim::app
