#include "sim/app/list_topics.h"

#include <fmt/format.h>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "policies/rebalance/rules.h"
#include "policies/registry.h"
#include "sim/scenario/network_options.h"
#include "sim/scheduler/engines.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/requests/read_requests.h"

namespace epsim::app {
namespace {

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
  Json out = Json::array();
  for (const auto& entry : entries) {
    out.push_back(row(entry));
  }
  return out;
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
  return {{"transports", "transports (dispatch.transport): who moves tokens to their experts and back",
           rows_of(transport_entries(), transport_row)}};
}

constexpr ListTopic kTopics[] = {{"models", models},   {"hardware", hardware}, {"policies", policies},
                                 {"readers", readers}, {"engines", engines},   {"transports", transports}};

}  // namespace

std::span<const ListTopic> list_topics() { return kTopics; }

}  // namespace epsim::app
