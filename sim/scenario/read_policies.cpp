#include "sim/scenario/read_policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "policies/registry.h"
#include "sim/core/refuse.h"
#include "sim/scenario/compared_policies.h"
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
    {"prefill", key::text(), key::kNone,
     "With `decode`, in place of `kind`: the label or policy of the prefill instances."},
    {"decode", key::text(), key::kNone, "The label or policy of the decode instances; needs `prefill`."},
    {kSystemSections[0], key::section(), key::by("the scenario's"),
     "Keys that override the scenario's for this label; as in `parallelism`."},
    {kSystemSections[1], key::section(), key::by("the scenario's"),
     "Keys that override the scenario's for this label; as in `memory`."},
    {kSystemSections[2], key::section(), key::by("the scenario's"),
     "Keys that override the scenario's for this label; as in `dispatch`."},
    {kSystemSections[3], key::section(), key::by("the scenario's"),
     "As in `serving`, before the scenario's own; with another `engine`, in place of them all."},
    {kSystemSections[4], key::section(), key::by("the scenario's"),
     "Keys that override the scenario's for this label; as in `execution`."},
    {"copies_take_kv", key::flag(), key::is(true),
     "false: the KV pool is as large as without copies and buffers, to see what their room costs; no real deployment "
     "is like this."},
});
constexpr KeyTable kChoiceKeys({
    {"kind", key::name_or_other([] { return entry_names(replica_choices()); }, "epsim list policies"),
     key::by("the policy's"), "The rule."},
});

void check_known(const std::vector<std::string>& known, const std::string& name, const InputPlace& place) {
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const std::string plugin =
        fmt::format(" A plug-in has an entry under `policies`, as in mine: {{plugin: {}}}.", name);
    throw InputError(place, unknown_name("policy", name, known) + (name.ends_with(".so") ? plugin : ""));
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

bool kind_uses_steps(const std::string& kind) {
  const PlacementPolicyEntry* entry =
      kind == plugin_policy().name ? &plugin_policy() : find_named(placement_policies(), kind);
  return entry != nullptr && entry->uses_steps;
}

bool has_system(const ConfigReader& entry) {
  return std::any_of(std::begin(kSystemSections), std::end(kSystemSections),
                     [&](std::string_view name) { return entry.has(std::string(name)); });
}

// "dispatch.dedup=node, serving.engine=vllm": what a section says, as --set would.
void add_settings(ConfigReader section, const std::string& path, std::string& out) {
  for (const std::string& key : section.keys()) {
    const std::string full = path + "." + key;
    if (section.is_section(key)) {
      add_settings(section.section(key), full, out);
    }
  }
  for (const auto& [key, value] : section.rest()) {
    out += fmt::format("{}{}.{}={}", out.empty() ? "" : ", ", path, key, value.empty() ? "null" : value);
  }
}

PolicyChoice read_plain_policy(ConfigReader& all, const std::string& label, const Scenario& s);

// The policy that the key names: a label beside this entry, or a policy with its defaults.
PolicyChoice read_named(ConfigReader& all, ConfigReader& in, const Key& key, const std::string& name,
                        const Scenario& s) {
  check_label(all, name, in.place(std::string(key.name)));
  const bool refers = all.is_section(name) && [entry = all.section(name)] {
    return has_system(entry) || entry.has("prefill") || entry.has("decode") || entry.has("home");
  }();
  in.check(!refers, std::string(key.name),
           fmt::format("'{}' has its own sections or names other policies; name a plain policy.", name));
  return read_plain_policy(all, name, s);
}

PolicyChoice read_policy_of_each_pool(ConfigReader& all, ConfigReader in, const std::string& label, const Scenario& s) {
  const bool apart = s.deployment.pools.size() == 2;
  in.check(apart, in.has("prefill") ? "prefill" : "decode",
           "only a deployment of prefill and decode instances has a policy for each (`deployment: {prefill: ..., "
           "decode: ...}`).");
  const auto pool_policy = [&](const Key& key) {
    const std::string name(key.name);
    in.check(in.has(name), name, "`prefill` and `decode` go together: each names the policy of its instances.");
    return std::make_shared<const PolicyChoice>(read_named(all, in, key, *in.maybe<std::string>(key), s));
  };
  const auto prefill = pool_policy(kEntryKeys["prefill"]), decode = pool_policy(kEntryKeys["decode"]);
  in.finish();
  PolicyChoice out = *decode;
  out.label = label;
  out.prefill = prefill;
  out.decode = decode;
  return out;
}

// Where a policy that acts in every step finds the experts: as another policy has planned.
void read_home(ConfigReader& all, ConfigReader& in, const Scenario& s, PolicyChoice& out) {
  const Key& key = step_policy_home_key();
  const auto name = in.maybe<std::string>(key);
  if (!name) {
    return;
  }
  const PolicyChoice home = read_named(all, in, key, *name, s);
  in.check(home.per_step == nullptr && home.rebalance == nullptr && home.ceiling == Ceiling::kNone, "home",
           fmt::format("'{}' is not a placement that is planned once, ahead of the run.", *name));
  out.placement = home.placement;
  out.uses_steps = home.uses_steps;
  out.planned_by = *name;
}

// The engine's rule for near copies is the default of choices that have one.
void preset_near(const std::string& rule, const Scenario& s, ConfigReader& choice) {
  const std::string_view near = find_engine(s.serving.engine).near_copies;
  const ReplicaChoiceEntry* entry = find_named(replica_choices(), rule);
  if (!near.empty() && entry != nullptr &&
      std::any_of(entry->keys.begin(), entry->keys.end(), [](const Key& key) { return key.name == "near"; })) {
    choice.preset("near", std::string(near));
  }
}

// The label becomes a folder's name. An entry may leave out `kind` when its label is a policy's name.
PolicyChoice read_plain_policy(ConfigReader& all, const std::string& label, const Scenario& s) {
  all.check(label.find('/') == std::string::npos && label.front() != '.', label,
            "a policy's label becomes the name of a folder: it must not hold a slash or begin with a dot.");
  ConfigReader in = all.section(label);
  if (in.has("prefill") || in.has("decode")) {
    return read_policy_of_each_pool(all, in, label, s);
  }
  const std::string own(in.has(std::string(plugin_policy().name)) ? plugin_policy().name : label);
  const auto kind = in.read<std::string>(kEntryKeys["kind"], own);
  check_known(policy_kinds(), kind, in.place(in.has("kind") ? "kind" : ""));
  const auto& [entry, per_step] = find_kind(kind, in);
  const std::string only = default_text(kRootKeys["policy"]);
  in.check(!s.model.dense() || (per_step == nullptr && entry.name == only && !in.has("rebalance")),
           in.has("kind") ? "kind" : "",
           fmt::format("{} has no experts to place, copy or move; its one policy is '{}'.", s.model.name, only));
  PolicyChoice out;
  out.label = out.planned_by = label;
  if (per_step != nullptr) {
    out.per_step = per_step->make(in);
    out.step_run = read_step_policy_run(in, per_step->predicts, per_step->copies_experts);
  }
  // Hierarchical modes balance the model's own expert groups unless the options say otherwise.
  if (entry.expert_groups != ExpertGroups::kUnknown) {
    in.preset<int>("num_groups", s.model.expert_groups);
  }
  out.copies_take_kv = in.read<bool>(kEntryKeys["copies_take_kv"]);  // a plug-in takes what is left as its own
  out.placement = entry.make(in);
  out.ceiling = entry.ceiling;
  out.uses_steps = entry.uses_steps;
  if (per_step != nullptr) {
    read_home(all, in, s, out);
  }
  in.check(
      per_step == nullptr || !in.has("replica_choice"), "replica_choice",
      "only policies that plan placements ahead of steps leave a choice of copy; this one decides it in every step.");
  if (in.has("replica_choice") || !entry.replica_choice.empty()) {
    ConfigReader choice = in.section(kEntryKeys["replica_choice"]);
    const auto rule = entry.replica_choice.empty()
                          ? choice.read<std::string>(kChoiceKeys["kind"])
                          : choice.read<std::string>(kChoiceKeys["kind"], std::string(entry.replica_choice));
    preset_near(rule, s, choice);
    out.replica_choice = make_replica_choice(rule, choice);
  }
  if (in.has("rebalance")) {
    in.check(out.ceiling == Ceiling::kNone && out.per_step == nullptr, "rebalance",
             "only policies that plan placements ahead of steps can plan again; this one does not.");
    out.rebalance = std::make_shared<const RebalanceOptions>(
        read_rebalance(in.section(kEntryKeys["rebalance"]), find_engine(s.serving.engine)));
  }
  in.finish();
  return out;
}

// An entry with sections of its own is read as part of the scenario that has them.
PolicyChoice read_policy(ConfigReader& all, const std::string& label, const std::vector<std::string>& path,
                         const ReadSystem& read_system, const Scenario& s) {
  if (!read_system || !all.is_section(label) || !has_system(all.section(label))) {
    return read_plain_policy(all, label, s);
  }
  all.section(label).pass_over();  // read below
  return read_system(path, label);
}

// An entry of `policies:` that stands under `policy` itself: {plugin: ./mine.so, ...} or {kind: eplb, ...}. It is
// called after its file or its kind.
PolicyChoice read_own_policy(ConfigReader& root, const ReadSystem& read_system, const Scenario& s) {
  PolicyChoice own = read_policy(root, "policy", {"policy"}, read_system, s);
  ConfigReader in = root.section(kRootKeys["policy"]);
  own.label = in.has("plugin") ? std::filesystem::path(in.required<std::string>("plugin")).stem().string()
                               : in.read<std::string>(kEntryKeys["kind"]);
  return own;
}

}  // namespace

std::string settings_of(ConfigReader entry) {
  std::string out;
  for (const std::string_view name : kSystemSections) {
    const std::string section(name);
    entry.check(!entry.has(section) || entry.is_section(section), section, "this must be a mapping of keys to values.");
    if (entry.has(section)) {
      add_settings(entry.section(section), section, out);
    }
  }
  return out;
}

std::span<const Key> policy_entry_keys() { return kEntryKeys; }

namespace {

// An entry's own kind; `label` is it unless the entry says another.
bool own_kind_uses_steps(ConfigReader entry, const std::string& label) {
  const std::string plugin(plugin_policy().name);
  const bool says = entry.has("kind") && !entry.is_section("kind");
  return kind_uses_steps(entry.has(plugin) ? plugin : says ? entry.required<std::string>("kind") : label);
}

// An entry of `policies`, or that under `policy`. What it names are plain policies.
bool entry_uses_steps(ConfigReader& all, ConfigReader entry, const std::string& label) {
  const auto refers = [&](const char* key) {
    if (!entry.has(key) || entry.is_section(key)) {
      return false;
    }
    const auto name = entry.required<std::string>(key);
    return all.is_section(name) ? own_kind_uses_steps(all.section(name), name) : kind_uses_steps(name);
  };
  return refers("prefill") || refers("decode") || refers("home") ||
         (!entry.has("prefill") && own_kind_uses_steps(entry, label));
}

bool name_uses_steps(ConfigReader& all, const std::string& name) {
  const auto variant = all.is_section(name) ? std::nullopt : as_variant(name);
  const std::string label = variant ? variant->first : name;
  return all.is_section(label) ? entry_uses_steps(all, all.section(label), label) : kind_uses_steps(label);
}

}  // namespace

bool any_uses_steps(ConfigReader root, const std::vector<std::string>& labels) {
  ConfigReader all = root.section(kRootKeys["policies"]);
  if (!labels.empty()) {
    return std::ranges::any_of(labels, [&](const std::string& label) { return name_uses_steps(all, label); });
  }
  return root.is_section("policy") ? entry_uses_steps(all, root.section(kRootKeys["policy"]), "")
                                   : name_uses_steps(all, root.read<std::string>(kRootKeys["policy"]));
}

std::span<const Key> replica_choice_keys() { return kChoiceKeys; }

void read_policies(ConfigReader root, const std::vector<std::string>& labels, const ReadSystem& read_system,
                   Scenario& s) {
  ConfigReader policies = root.section(kRootKeys["policies"]);
  std::optional<PolicyChoice> in_place;
  if (root.is_section("policy") && !read_system && !labels.empty()) {
    root.section(kRootKeys["policy"]).pass_over();
  } else if (root.is_section("policy")) {
    in_place = read_own_policy(root, read_system, s);
  }
  const std::string own = in_place                    ? in_place->label
                          : root.is_section("policy") ? ""
                                                      : root.read<std::string>(kRootKeys["policy"]);
  for (const std::string& label : labels.empty() ? std::vector<std::string>{own} : labels) {
    const InputPlace place = labels.empty() ? root.place("policy") : InputPlace{"", 0, "policies"};
    refuse_if(std::any_of(s.policies.begin(), s.policies.end(), [&](const auto& p) { return p.label == label; }), place,
              fmt::format("'{}' is named twice; give the second variant its own entry.", label));
    const bool here = in_place && label == own;
    const auto variant = policies.is_section(label) ? std::nullopt : as_variant(label);
    const std::string entry = variant ? variant->first : label;
    if (!here) {
      check_label(policies, entry, place);
    }
    PolicyChoice choice = here ? *in_place : read_policy(policies, entry, {"policies", entry}, read_system, s);
    s.policies.push_back(variant ? vary(std::move(choice), variant->second) : std::move(choice));
    if (s.policies.back().system == nullptr) {
      check_slots(root, here ? root.section(kRootKeys["policy"]) : policies.section(entry), s);
    }
  }
  if (!read_system) {
    policies.pass_over();
    return;
  }
  for (const std::string& label : policies.keys()) {
    // Checked even when it is not run.
    if (std::none_of(s.policies.begin(), s.policies.end(), [&](const auto& p) { return p.label == label; })) {
      read_policy(policies, label, {"policies", label}, read_system, s);
    }
  }
}

}  // namespace epsim
