// `epsim list`: everything that a scenario can name, each with its sentence.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "models/catalogue.h"
#include "models/model_catalogue.h"
#include "models/network/topology_drawing.h"
#include "policies/rebalance/rules.h"
#include "policies/registry.h"
#include "policies/replica_choice/registry.h"
#include "sim/app/command_line.h"
#include "sim/app/keys.h"
#include "sim/core/files.h"
#include "sim/scenario/engine_profile.h"
#include "sim/scenario/network_options.h"
#include "sim/scenario/scenario.h"
#include "traces/requests/read_requests.h"
#include "traces/routing/load_sources.h"

namespace epsim::app {
namespace {

void line(std::string_view name, std::string_view sentence) {
  std::cout << fmt::format("  {:<22} {}\n", name, sentence);
}

void list_models() {
  std::cout << "models (model.architecture); the path of a Hugging Face config.json works too\n";
  for (const ModelItem& model : epsim::list_models()) {
    line(model.name, model.summary);
  }
}

void list_hardware() {
  std::cout << "nodes (cluster.node)\n";
  for (const CatalogueItem& node : list_nodes()) {
    line(node.name, node.summary);
  }
  std::cout << "GPUs\n";
  for (const CatalogueItem& gpu : list_gpus()) {
    line(gpu.name, gpu.summary);
  }
}

template <class Entry>
void list_named(const Entry& entry) {
  line(entry.name, entry.summary);
  line("", fmt::format("options: {}", entry.options));
  line("", fmt::format("ignores: {}", entry.ignores));
}

void list_policies() {
  std::cout << "policies (--policies, policy, or kind in an entry of policies:)\n";
  for (const PlacementPolicyEntry& entry : placement_policies()) {
    list_named(entry);
    if (!entry.replica_choice.empty()) {
      line("", fmt::format("replica_choice: {} unless the entry names another", entry.replica_choice));
    }
  }
  list_named(plugin_policy());
  std::cout << "replica choices (replica_choice.kind in an entry of policies:)\n";
  for (const ReplicaChoiceEntry& entry : replica_choices()) {
    list_named(entry);
  }
  std::cout << "when to plan again during a run (rebalance.rule in an entry of policies:)\n";
  for (const RebalanceRuleEntry& entry : rebalance_rules()) {
    list_named(entry);
  }
  std::cout << "policies that act in every step (epsim screen)\n";
  for (const StepPolicyEntry& entry : step_policies()) {
    line(entry.name, entry.summary);
    line("", fmt::format("options: {}", entry.options));
  }
  std::cout << "ceilings, named like policies\n";
  for (const CeilingEntry& entry : kCeilings) {
    line(entry.name, entry.summary);
    line("", fmt::format("options: {}", entry.options));
  }
}

void list_readers() {
  std::cout << "requests (requests.kind)\n";
  for (const RequestSource& source : request_sources()) {
    line(source.name, source.summary);
  }
  std::cout << "expert loads (loads.kind, plan_loads.kind)\n";
  for (const LoadReader& reader : load_readers()) {
    line(reader.name, reader.summary);
  }
}

void list_engines() {
  std::cout << "serving engines (serving.engine); docs/serving.md explains the knobs\n";
  for (const EngineProfile& engine : engine_profiles()) {
    line(engine.name, engine.summary);
    line("", fmt::format("knobs: {}", fmt::join(engine.knobs, ", ")));
  }
  for (const EngineAlias& alias : kEngineAliases) {
    line(alias.name, fmt::format("the newest of them: {}", alias.engine));
  }
}

void list_transports() {
  std::cout << "transports (dispatch.transport): who moves tokens to their experts and back\n";
  for (const TransportEntry& entry : transport_entries()) {
    line(entry.name, entry.summary);
    line("", fmt::format("runs on: {}", entry.runs_on));
    line("", fmt::format("source: {}", entry.source));
  }
}

struct Topic {
  const char* name;
  void (*print)();
};
constexpr Topic kTopics[] = {{"models", list_models},   {"hardware", list_hardware}, {"policies", list_policies},
                             {"readers", list_readers}, {"engines", list_engines},   {"transports", list_transports}};

// Draws the cluster of a scenario: DOT on standard output, or a file of the kind that its name says.
int draw_topology(const boost::program_options::variables_map& values) {
  const Topology topology = read_topology(Config::from_file(shipped_file(values["topology"].as<std::string>())));
  const int nodes = values["nodes"].as<int>();
  if (nodes < 1) {
    throw InputError({"", 0, "nodes"}, fmt::format("{} nodes cannot be drawn; 1 or more can.", nodes));
  }
  if (values.count("output") == 0 || values["output"].as<std::string>() == "-") {
    std::cout << to_dot(topology, nodes);
    return 0;
  }
  const std::filesystem::path file(values["output"].as<std::string>());
  const std::string kind = file.extension().string();
  if (kind != ".svg" && kind != ".dot") {
    throw InputError({file.string(), 0, "output"}, "a topology is drawn as .svg or .dot; end the file's name so.");
  }
  if (std::filesystem::exists(file) && !values["overwrite"].as<bool>()) {
    throw InputError({file.string(), 0, "output"}, "the file exists; name another one or add --overwrite.");
  }
  write_file_atomically(file, kind == ".svg" ? to_svg(topology, nodes) : to_dot(topology, nodes));
  return 0;
}

}  // namespace

int list_verb(const std::vector<std::string>& words) {
  namespace po = boost::program_options;
  po::options_description options("options");
  options.add_options()("topology", po::value<std::string>(), "draw the cluster of this scenario instead")(
      "output,o", po::value<std::string>(), "the drawing's file, .svg or .dot; default: DOT on standard output")(
      "nodes", po::value<int>()->default_value(kDrawnNodes), "draw at most so many nodes")(
      "overwrite", po::bool_switch(), "replace the file if it exists")("markdown", po::bool_switch(),
                                                                       "with keys: docs/keys.md");
  const auto values =
      parse_words(words,
                  "epsim list [models|hardware|policies|readers|engines|transports]\n"
                  "epsim list keys [PREFIX]\n"
                  "epsim list --topology SCENARIO.yaml [-o cluster.svg]\n\n"
                  "Everything that a scenario can name, each with its sentence; all of it by default.\n"
                  "keys: every key of a scenario, or those that begin with PREFIX: type, range, default, meaning.\n"
                  "Or a drawing of a scenario's network: nodes, NICs, switches, and the rates between.\n",
                  options, {"topic", "prefix"});
  if (!values) {
    return 0;
  }
  if (values->count("topology") > 0) {
    return draw_topology(*values);
  }
  const std::string wanted = values->count("topic") > 0 ? (*values)["topic"].as<std::string>() : "";
  if (wanted != "keys" && values->count("prefix") > 0) {
    throw InputError({}, "too many arguments: only `epsim list keys` takes a second one.");
  }
  if (wanted == "keys") {
    const std::string prefix = values->count("prefix") > 0 ? (*values)["prefix"].as<std::string>() : "";
    std::cout << ((*values)["markdown"].as<bool>() ? keys_markdown() : keys_text(prefix));
    return 0;
  }
  std::vector<std::string> names{"keys"};
  for (const Topic& topic : kTopics) {
    names.emplace_back(topic.name);
    if (wanted.empty() || wanted == topic.name) {
      topic.print();
    }
  }
  if (!wanted.empty() && std::find(names.begin(), names.end(), wanted) == names.end()) {
    throw InputError({}, unknown_name("topic", wanted, names));
  }
  return 0;
}

}  // namespace epsim::app
