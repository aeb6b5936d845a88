// `epsim list`: everything that a scenario can name, each with its sentence.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

#include "models/catalogue.h"
#include "models/model_catalogue.h"
#include "policies/registry.h"
#include "policies/replica_choice/registry.h"
#include "sim/app/command_line.h"
#include "sim/serving/engine_profile.h"
#include "sim/serving/scenario.h"
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
  std::cout << "serving engines (serving.engine); sim/serving/README.md explains the knobs\n";
  for (const EngineProfile& engine : engine_profiles()) {
    line(engine.name, engine.summary);
    line("", fmt::format("knobs: {}", fmt::join(engine.knobs, ", ")));
  }
}

struct Topic {
  const char* name;
  void (*print)();
};
constexpr Topic kTopics[] = {{"models", list_models},
                             {"hardware", list_hardware},
                             {"policies", list_policies},
                             {"readers", list_readers},
                             {"engines", list_engines}};

}  // namespace

int list_verb(const std::vector<std::string>& words) {
  const auto values =
      parse_words(words,
                  "epsim list [models|hardware|policies|readers|engines]\n\n"
                  "Everything that a scenario can name, each with its sentence; all of it by default.\n",
                  boost::program_options::options_description("options"), {"topic"});
  if (!values) {
    return 0;
  }
  const std::string wanted = values->count("topic") > 0 ? (*values)["topic"].as<std::string>() : "";
  std::vector<std::string> names;
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
