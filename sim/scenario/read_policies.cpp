#include "sim/scenario/read_policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "policies/registry.h"
#include "sim/scenario/expert_layout.h"
#include "sim/scenario/root_keys.h"
#include "sim/scheduler/engines.h"

namespace epsim {
namespace {

constexpr KeyTable kEntryKeys({
    {"kind", key::name_or_other(policy_kinds, "epsim list policies"), key::by("the label"),
     "The policy; may be left out where the label is its name."},
    {"replica_choice", key::section(), key::by("the policy's"), "Which copy of an expert a token goes to."},
    {"rebalance", key::section(), key::kNone, "Plan again during the run."},
});
constexpr KeyTable kChoiceKeys({
    {"kind", key::name_or_other([] { return entry_names(replica_choices()); }, "epsim list policies"),
     key::by("the policy's"), "The rule."},
});

void check_known(const std::vector<std::string>& known, const std::string& name, const InputPlace& place) {
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw InputError(place, unknown_name("policy", name, known));
  }
}

// A label that stands nowhere is an error of whoever gave it, at `place`, not of the section that lacks it.
void check_label(const ConfigReader& all, const std::string& label, const InputPlace& place) {
  std::vector<std::string> known = policy_kinds();
  for (const std::string& own : all.keys()) {
    if (std::find(known.begin(), known.end(), own) == known.end()) {
      known.push_back(own);
    }
  }
  check_known(known, label, place);
}

// What `kind` names. A policy that acts in every step starts from experts in order.
struct Named {
  const PlacementPolicyEntry& placement;
  const StepPolicyEntry* per_step = nullptr;
};

Named find_kind(const std::string& kind, const ConfigReader& in) {
  if (const StepPolicyEntry* entry = find_named(step_policies(), kind)) {
    return {experts_in_order(), entry};
  }
  const PlacementPolicyEntry* ceiling = find_named(ceilings(), kind);
  return {ceiling != nullptr ? *ceiling : placement_policy_entry(kind, in)};
}

// The label becomes a folder's name. An entry may leave out `kind` when its label is a policy's name.
PolicyChoice read_policy(ConfigReader& all, const std::string& label, const Scenario& s) {
  all.check(label.find('/') == std::string::npos && label.front() != '.', label,
            "a policy's label becomes the name of a folder: it must not hold a slash or begin with a dot.");
  ConfigReader in = all.section(label);
  const std::string own(in.has(std::string(plugin_policy().name)) ? plugin_policy().name : label);
  const auto kind = in.read<std::string>(kEntryKeys["kind"], own);
  check_known(policy_kinds(), kind, in.place(in.has("kind") ? "kind" : ""));
  const auto& [entry, per_step] = find_kind(kind, in);
  PolicyChoice out{label};
  if (per_step != nullptr) {
    out.per_step = per_step->make(in);
    out.step_run = read_step_policy_run(in);
  }
  // Hierarchical modes balance the model's own expert groups unless the options say otherwise.
  if (entry.expert_groups != ExpertGroups::kUnknown) {
    in.preset<int>("num_groups", s.model.expert_groups);
  }
  out.placement = entry.make(in);
  out.ceiling = entry.ceiling;
  if (in.has("replica_choice") || !entry.replica_choice.empty()) {
    ConfigReader choice = in.section(kEntryKeys["replica_choice"]);
    const auto rule = entry.replica_choice.empty()
                          ? choice.read<std::string>(kChoiceKeys["kind"])
                          : choice.read<std::string>(kChoiceKeys["kind"], std::string(entry.replica_choice));
    out.replica_choice = make_replica_choice(rule, choice);
  }
  if (in.has("rebalance")) {
    in.check(out.ceiling == Ceiling::kNone && out.per_step == nullptr, "rebalance",
             "only policies that plan placements ahead of steps can plan again; this one does not.");
    const EngineDefault<Seconds>& layer_time = find_engine(s.serving.engine).rebalanced_layer;
    out.rebalance =
        std::make_shared<const RebalanceOptions>(read_rebalance(in.section(kEntryKeys["rebalance"]), layer_time));
  }
  in.finish();
  return out;
}

// An entry of `policies:` that stands under `policy` itself: {plugin: ./mine.so, ...} or {kind: eplb, ...}. It is
// called after its file or its kind.
PolicyChoice read_own_policy(ConfigReader& root, const Scenario& s) {
  PolicyChoice own = read_policy(root, "policy", s);
  ConfigReader in = root.section(kRootKeys["policy"]);
  own.label = in.has("plugin") ? std::filesystem::path(in.required<std::string>("plugin")).stem().string()
                               : in.read<std::string>(kEntryKeys["kind"]);
  return own;
}

}  // namespace

std::span<const Key> policy_entry_keys() { return kEntryKeys; }

std::span<const Key> replica_choice_keys() { return kChoiceKeys; }

void read_policies(ConfigReader root, const std::vector<std::string>& labels, Scenario& s) {
  ConfigReader policies = root.section(kRootKeys["policies"]);
  std::optional<PolicyChoice> in_place;
  if (root.is_section("policy")) {
    in_place = read_own_policy(root, s);
  }
  const std::string own = in_place ? in_place->label : root.read<std::string>(kRootKeys["policy"]);
  for (const std::string& label : labels.empty() ? std::vector<std::string>{own} : labels) {
    root.check(std::none_of(s.policies.begin(), s.policies.end(), [&](const auto& p) { return p.label == label; }),
               "policy", fmt::format("'{}' is named twice; give its second variant an entry of its own.", label));
    const bool here = in_place && label == own;
    if (!here) {
      check_label(policies, label, labels.empty() ? root.place("policy") : InputPlace{"", 0, "policies"});
    }
    s.policies.push_back(here ? *in_place : read_policy(policies, label, s));
    check_slots(root, here ? root.section(kRootKeys["policy"]) : policies.section(label), s);
  }
  for (const std::string& label : policies.keys()) {
    read_policy(policies, label, s);  // checked even when it is not run
  }
}

}  // namespace epsim
