#include "sim/verbs/plan_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/catalogue/data_files.h"
#include "models/catalogue/model_catalogue.h"
#include "policies/placement/eplb.h"
#include "policies/plan_io.h"
#include "policies/registry.h"
#include "sim/core/files.h"
#include "sim/core/text.h"
#include "traces/expert_loads/load_sources.h"

namespace epsim {
namespace {

void read_model(ConfigReader& root, PlanRequest& request) {
  if (const auto name = root.maybe<std::string>("model")) {
    request.model = find_model(looks_like_path(*name) ? root.path("model").string() : *name);
    request.expert_bytes = request.model->expert_bytes();
  }
  if (const auto given = root.maybe<Bytes>("expert_bytes", Bound::kPositive)) {
    request.expert_bytes = given;  // another data type than the model's bf16, say
  }
}

LoadWindow read_weights(ConfigReader& root) {
  const auto rows = root.required<std::vector<std::vector<double>>>("weights");
  root.check(!rows.empty() && !rows.front().empty(), "weights",
             "this must be a list of layers, each a list of one load per expert; it is empty.");
  const std::size_t experts = rows.front().size();
  LoadWindow out(static_cast<int>(rows.size()), static_cast<int>(experts));
  for (std::size_t l = 0; l < rows.size(); ++l) {
    root.check(rows[l].size() == experts, "weights",
               fmt::format("layer {} has {} loads and layer 0 has {}; every layer has one load per expert.", l,
                           rows[l].size(), experts));
    root.check(std::isfinite(std::accumulate(rows[l].begin(), rows[l].end(), 0.0)), "weights",
               fmt::format("the loads of layer {} add up to more than a number can hold.", l));
    std::copy(rows[l].begin(), rows[l].end(), out.layer(static_cast<int>(l)).begin());
  }
  return out;
}

LoadWindow read_loads(ConfigReader& root, const PlanRequest& request) {
  const Seed seed = static_cast<Seed>(root.optional<std::int64_t>("seed", 0));
  root.check(root.has("weights") != root.has("trace"), "weights",
             "give the loads either here, as [layer][expert], or as a `trace`: exactly one of the two.");
  ConfigReader trace = root.section("trace");
  if (root.has("weights")) {
    LoadWindow load = read_weights(root);
    root.check(
        !request.model || (request.model->moe_layers() == load.layers() && request.model->experts == load.experts()),
        "weights",
        request.model ? fmt::format("{} of {} experts, but {} has {} of {}.", count_of(load.layers(), "layer"),
                                    load.experts(), request.model->name,
                                    count_of(request.model->moe_layers(), "MoE layer"), request.model->experts)
                      : "");
    return load;
  }
  root.check(request.model.has_value(), "model", "a trace is read for a model: name it.");
  const PlacementPolicyEntry* entry = find_named(placement_policies(), root.required<std::string>("policy"));
  return read_load_window(trace, *request.model, seed, entry != nullptr && entry->uses_steps);
}

void read_shape(ConfigReader& root, PlanRequest& request) {
  const int gpus = root.required<int>("num_gpus", Bound::kPositive);
  check_limit(limits::kGpus, gpus, root.place("num_gpus"));
  request.nodes = root.optional<int>("num_nodes", 1, Bound::kPositive);
  root.check(gpus >= request.nodes, "num_nodes", fmt::format("{} GPUs cannot be on {} nodes.", gpus, request.nodes));
  request.shape = {gpus, gpus % request.nodes == 0 ? gpus / request.nodes : gpus};
}

// eplb.py needs GPUs that divide over the nodes only where it packs groups onto nodes, and so do we; any other policy
// may ask which GPUs share a node.
void check_nodes(const ConfigReader& root, ConfigReader& options, const PlacementPolicyEntry& entry,
                 const PlanRequest& request) {
  if (request.shape.gpus % request.nodes == 0) {
    return;
  }
  const std::string uneven = fmt::format("{} GPUs do not divide over {} nodes", request.shape.gpus, request.nodes);
  root.check(entry.expert_groups == ExpertGroups::kAsArgument, "num_gpus",
             fmt::format("{}; only EPLB and base, in global mode, plan for that.", uneven));
  const EplbOptions eplb = read_eplb_options(options);
  root.check(eplb.mode == EplbMode::kGlobal || (eplb.mode == EplbMode::kAuto && eplb.groups % request.nodes != 0),
             "num_gpus", fmt::format("{}, as hierarchical mode needs; mode global ignores the nodes.", uneven));
  root.check(!root.has("previous"), "previous",
             fmt::format("{}, so it is not known which moves stay inside a node.", uneven));
}

// An option that the request states outside of `options`.
void hand_over(ConfigReader& root, ConfigReader& options, const std::string& key, const std::string& option,
               int value) {
  root.check(!options.has(option), key, fmt::format("options.{} says the same; give one of the two.", option));
  options.preset<int>(option, value);
}

// num_replicas (physical experts per layer, on average where layers differ) and replication_factor (extra copies per
// GPU over all layers) state the same budget in two ways: copies = (num_replicas - experts) x layers = factor x GPUs.
void read_budget(ConfigReader& root, ConfigReader& options, const PlacementPolicyEntry& entry,
                 const PlanRequest& request) {
  const auto physical = root.maybe<int>("num_replicas", Bound::kPositive);
  const auto factor = root.maybe<int>("replication_factor");
  if (!physical && !factor) {
    return;
  }
  const std::string key = physical ? "num_replicas" : "replication_factor";
  root.check(!physical || !factor, key, "replication_factor says the same; give one of the two.");
  const int experts = request.load.experts(), layers = request.load.layers(), gpus = request.shape.gpus;
  root.check(!physical || *physical >= experts, key,
             fmt::format("{} physical experts cannot hold {} experts.", physical.value_or(0), experts));
  const std::int64_t slots =
      physical ? product_of({*physical, layers}) : product_of({*factor, gpus}) + product_of({experts, layers});
  check_limit(limits::kSlots, slots, root.place(key));
  const long long copies = physical ? 1LL * (*physical - experts) * layers : 1LL * *factor * gpus;
  if (entry.budget == CopyBudget::kPerLayer) {
    root.check(copies % layers == 0, key,
               fmt::format("{} copies do not divide over {} layers, and {} gives every layer equally many.", copies,
                           layers, request.policy));
    const long long each = experts + copies / layers;
    root.check(each % gpus == 0, key,
               fmt::format("{} physical experts in each layer do not divide over {} GPUs; {} needs a multiple of {}.",
                           each, gpus, request.policy, gpus));
    hand_over(root, options, key, "num_redundant_experts", static_cast<int>(copies / layers));
  } else if (entry.budget == CopyBudget::kOverLayers) {
    root.check(copies % gpus == 0, key,
               fmt::format("{} copies over all layers do not divide over {} GPUs, and {} gives every GPU equally many.",
                           copies, gpus, request.policy));
    hand_over(root, options, key, "replication_factor", static_cast<int>(copies / gpus));
  } else {
    root.check(copies == 0, key,
               fmt::format("the number of copies of '{}' is not set this way; its options are: {}.", request.policy,
                           options_text(entry.keys)));
  }
}

// Groups that the request states mean the mode of eplb.py, whose arguments it has; the model's leave each policy its own
// mode, as in a scenario. Options go before both.
void read_groups(ConfigReader& root, ConfigReader& options, const PlacementPolicyEntry& entry,
                 const PlanRequest& request) {
  const auto groups = root.maybe<int>("num_groups", Bound::kPositive);
  if (entry.expert_groups == ExpertGroups::kUnknown) {
    return;
  }
  if (!groups) {
    options.preset<int>("num_groups", request.model ? request.model->expert_groups : 1);
    return;
  }
  hand_over(root, options, "num_groups", "num_groups", *groups);
  if (entry.expert_groups == ExpertGroups::kAsArgument) {
    options.preset<std::string>("mode", "auto");
  }
}

// A name that no policy has is a fault of `policy`, not of its options.
const PlacementPolicyEntry& entry_of(const ConfigReader& root, const std::string& policy) {
  try {
    return placement_policy_entry(policy, root);
  } catch (const InputError& e) {
    const std::string plugin = fmt::format(" A plug-in is policy plugin with options {{\"path\": \"{}\"}}.", policy);
    root.fail("policy", e.problem + (policy.ends_with(".so") ? plugin : ""));
  }
}

void read_policy(ConfigReader& root, PlanRequest& request) {
  request.policy = root.required<std::string>("policy");
  ConfigReader options = root.section("options");
  root.check(find_named(step_policies(), request.policy) == nullptr, "policy",
             fmt::format("'{}' acts in every step and plans nothing ahead; `epsim balance` shows how well it "
                         "balances.",
                         request.policy));
  const PlacementPolicyEntry& entry = entry_of(root, request.policy);
  read_budget(root, options, entry, request);
  read_groups(root, options, entry, request);
  request.placement = entry.make(options);
  check_nodes(root, options, entry, request);
  options.finish();
}

void read_previous(ConfigReader& root, PlanRequest& request) {
  const auto file = root.maybe_path("previous");
  if (!file) {
    return;
  }
  request.previous_name = file->string();
  request.previous = parse_plan(read_document(*file), request.previous_name);
  const PlacementPlan& before = *request.previous;
  root.check(before.gpus == request.shape.gpus && before.experts == request.load.experts() &&
                 static_cast<int>(before.layers.size()) == request.load.layers(),
             "previous",
             fmt::format("that plan is for {} of {} experts on {} GPUs, the request for {} of {} on {}.",
                         count_of(before.layers.size(), "layer"), before.experts, before.gpus,
                         count_of(request.load.layers(), "layer"), request.load.experts(), request.shape.gpus));
}

// What a change from the previous plan may look like.
void read_migration(ConfigReader& root, PlanRequest& request) {
  root.check(request.previous || !root.has("keep"), "keep", "there is no `previous` plan to keep anything of.");
  root.check(request.previous || !root.has("migration_limit"), "migration_limit",
             "there is no `previous` plan to migrate from.");
  const bool slots = request.previous && placement_policy_entry(request.policy, root).keeps_slots;
  const std::string keep = root.choice("keep", {"none", "slots", "gpus", "gpus_in_node"}, slots ? "slots" : "none");
  if (keep != "none") {
    request.keep = keep == "slots" ? Keep::kSlots : keep == "gpus" ? Keep::kGpus : Keep::kGpusInNode;
  }
  request.migration_limit = root.optional<int>("migration_limit", request.migration_limit, Bound::kPositive);
}

}  // namespace

PlacementPlan make_plan(const PlanRequest& request) {
  PlacementPlan plan = request.placement->plan(request.load, request.shape);
  if (request.previous && request.previous->copies() == plan.copies()) {
    const std::string name = plan.policy;
    plan = request.placement->replan(request.load, request.shape, *request.previous);
    plan.policy = name;
  }
  return request.keep ? keep_in_place(plan, *request.previous, request.shape.gpus_per_node, *request.keep) : plan;
}

PlanRequest read_plan_request(const Config& config) {
  ConfigReader root = config.root();
  PlanRequest request;
  read_model(root, request);
  request.load = read_loads(root, request);
  read_shape(root, request);
  read_policy(root, request);
  read_previous(root, request);
  read_migration(root, request);
  root.finish();
  return request;
}

}  // namespace epsim
