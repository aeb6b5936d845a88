// `epsim list`: everything that a scenario can name, each with its sentence.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "models/network/topology_drawing.h"
#include "policies/rebalance/rules.h"
#include "policies/registry.h"
#include "sim/app/command_line.h"
#include "sim/app/keys.h"
#include "sim/core/files.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"
#include "sim/scenario/network_options.h"
#include "sim/scheduler/engines.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/requests/read_requests.h"

namespace epsim::app {

namespace {

// One catalogue. A row is an object with `name`, `summary` and what else is to be told, each a text or a list of texts.
struct ListSection {
  const char *key, *title;  // in the JSON; in the text
  nlohmann::ordered_json rows;
};

struct ListTopic {
  const char* name;
  std::vector<ListSection> (*sections)();
};

using Json = nlohmann::ordered_json;

template <class Entry>
Json plain_row(const Entry& entry) {
  return {{"name", entry.name}, {"summary", entry.summary}};
}

template <class Entry>
Json policy_row(const Entry& entry) {
  return {{"name", entry.name},
          {"summary", entry.summary},
          {"options", options_text(entry.keys)},
          {"ignores", entry.ignores}};
}

Json placement_row(const PlacementPolicyEntry& entry) {
  Json out = policy_row(entry);
  if (!entry.replica_choice.empty()) {
    out["replica_choice_by_default"] = entry.replica_choice;
  }
  return out;
}

Json engine_row(const EngineProfile& engine) {
  Json out = plain_row(engine);
  out["knobs"] = entry_names(engine.keys);
  return out;
}

Json transport_row(const TransportEntry& entry) {
  Json out = plain_row(entry);
  out["runs_on"] = entry.runs_on;
  out["source"] = entry.source;
  return out;
}

template <class Entries, class Row>
Json rows_of(const Entries& entries, Row row) {
  return mapped(entries, row);
}

std::vector<ListSection> models() {
  return {{"models", "models (model.architecture); the path of a Hugging Face config.json works too",
           rows_of(list_models(), plain_row<ModelItem>)}};
}

std::vector<ListSection> hardware() {
  return {{"nodes", "nodes (cluster.node)", rows_of(list_nodes(), plain_row<CatalogueItem>)},
          {"gpus", "GPUs", rows_of(list_gpus(), plain_row<CatalogueItem>)}};
}

std::vector<ListSection> policies() {
  Json placement = rows_of(placement_policies(), placement_row);
  placement.push_back(placement_row(plugin_policy()));
  return {{"policies", "policies (--policies, policy, or kind in an entry of policies:)", std::move(placement)},
          {"replica_choices", "replica choices (replica_choice.kind in an entry of policies:)",
           rows_of(replica_choices(), policy_row<ReplicaChoiceEntry>)},
          {"rebalance_rules", "when to plan again during a run (rebalance.rule in an entry of policies:)",
           rows_of(rebalance_rules(), policy_row<RebalanceRuleEntry>)},
          {"step_policies", "policies that act in every step (epsim balance)",
           rows_of(step_policies(), policy_row<StepPolicyEntry>)},
          {"ceilings", "ceilings, named like policies", rows_of(ceilings(), placement_row)}};
}

std::vector<ListSection> readers() {
  return {{"requests", "requests (requests.kind)", rows_of(request_sources(), plain_row<RequestSource>)},
          {"loads", "expert loads (loads.kind, plan_loads.kind)", rows_of(load_readers(), plain_row<LoadReader>)}};
}

std::vector<ListSection> engines() {
  Json rows = rows_of(engine_profiles(), engine_row);
  for (const EngineAlias& alias : kEngineAliases) {
    rows.push_back({{"name", alias.name}, {"summary", fmt::format("the newest of them: {}", alias.engine)}});
  }
  return {{"engines", "serving engines (serving.engine); docs/serving.md explains the knobs", std::move(rows)}};
}

std::vector<ListSection> transports() {
  return {{"transports", "transports (dispatch.transport): libraries that move tokens to their experts and back",
           rows_of(transport_entries(), transport_row)}};
}

constexpr ListTopic kTopics[] = {{"models", models},   {"hardware", hardware}, {"policies", policies},
                                 {"readers", readers}, {"engines", engines},   {"transports", transports}};

void print_line(const std::string& name, const std::string& text) {
  std::cout << fmt::format("  {:<22} {}\n", name, text);
}

// A text, or a list of texts.
std::string json_text(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), ", "));
}

void print_section(const ListSection& section) {
  std::cout << section.title << "\n";
  for (const Json& row : section.rows) {
    print_line(row.at("name"), row.at("summary"));
    for (const auto& [key, value] : row.items()) {
      if (key != "name" && key != "summary") {
        print_line("", replaced(key, "_", " ") + ": " + json_text(value));
      }
    }
  }
}

// The topics of that name, all without one.
int list_topic(const std::string& wanted, const JsonOutput& json) {
  std::vector<std::string> names{"keys"};
  Json all{{"format", 1}};
  for (const ListTopic& topic : kTopics) {
    names.emplace_back(topic.name);
    if (!wanted.empty() && wanted != topic.name) {
      continue;
    }
    for (const ListSection& section : topic.sections()) {
      if (!json.wanted()) {
        print_section(section);
      }
      all[section.key] = section.rows;
    }
  }
  refuse_if(!wanted.empty() && std::find(names.begin(), names.end(), wanted) == names.end(), "",
            unknown_name("topic", wanted, names));
  json.print(all.dump(2) + "\n");
  return 0;
}

int list_keys(const po::variables_map& values, const JsonOutput& json) {
  const std::string prefix = values.count("prefix") > 0 ? values["prefix"].as<std::string>() : "";
  if (json.wanted()) {
    json.print(keys_json(prefix));
  } else {
    std::cout << (values["markdown"].as<bool>() ? keys_markdown() : keys_text(prefix));
  }
  return 0;
}

// Draws the cluster of a scenario as a Graphviz graph.
int draw_topology(const po::variables_map& values) {
  const TopologyPlan network = read_topology(Config::from_file(shipped_file(values["topology"].as<std::string>())));
  const int nodes = values["nodes"].as<int>();
  refuse_if(nodes < 1, "nodes", fmt::format("{} nodes cannot be drawn; 1 or more can.", nodes));
  const FileOutput out(values, "-");
  refuse_if(!out.to_standard_output() && out.path().extension() != ".dot", {out.path().string(), 0, "output"},
            "a topology is written as a Graphviz graph: name the file .dot; `dot -Tsvg` draws it.");
  out.write(to_dot(network, nodes), "topology");
  return 0;
}

// Options that only one of the uses takes would be passed over in silence by the others.
void check_use(const po::variables_map& values, bool topology, bool keys) {
  refuse_if(!topology && values.count("output") > 0, "output",
            "this option is for --topology; lists go to standard output.");
  refuse_if(!topology && !values["nodes"].defaulted(), "nodes",
            "this option is for --topology; lists have no number of nodes.");
  refuse_if(topology && (values["json"].as<bool>() || values.count("topic") > 0), "topology",
            "a drawing takes neither --json nor a topic.");
  refuse_if(values["markdown"].as<bool>() && (!keys || values["json"].as<bool>() || values.count("prefix") > 0),
            "markdown", "this option is for `epsim list keys` alone.");
  refuse_if(!keys && values.count("prefix") > 0, "", "too many arguments: only `epsim list keys` takes a second one.");
}

}  // namespace

int list_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("topology", po::value<std::string>(), "draw the cluster of this scenario instead");
  add_file_output(options, "the Graphviz file, .dot; default: -, standard output");
  options.add_options()("nodes", po::value<int>()->default_value(kDrawnNodes), "maximum number of nodes to draw")(
      "markdown", po::bool_switch(), "with keys: docs/keys.md");
  add_json_option(options, "a list of objects (name, summary, options, ...) for each catalogue of the topic");
  const auto values =
      parse_words(words,
                  "epsim list [models|hardware|policies|readers|engines|transports]\n"
                  "epsim list keys [PREFIX]\n"
                  "epsim list --topology SCENARIO.yaml [-o cluster.dot]\n\n"
                  "Everything that a scenario can name, with a one-line description; all topics by default.\n"
                  "keys: every key of a scenario, or those that begin with PREFIX: type, range, default, meaning.\n"
                  "Or a scenario's network as a Graphviz graph: nodes, NICs, switches, and the rates between;\n"
                  "`dot -Tsvg cluster.dot -o cluster.svg` draws it.\n",
                  options, {"topic", "prefix"});
  const bool topology = values.count("topology") > 0;
  const std::string wanted = values.count("topic") > 0 ? values["topic"].as<std::string>() : "";
  check_use(values, topology, wanted == "keys");
  if (topology) {
    return draw_topology(values);
  }
  const JsonOutput json(values);
  return wanted == "keys" ? list_keys(values, json) : list_topic(wanted, json);
}

}  // namespace epsim::app
