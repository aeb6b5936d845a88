#include "policies/registry.h"

#include <fmt/format.h>

#include <algorithm>

namespace epsim {

// Defined beside each policy.
extern const PlacementPolicyEntry kContiguous, kBase, kEplb, kEplbSglang, kEplbVllm, kCraft, kGrace, kGraceVanilla,
    kGraceHg, kGraceHgFr, kGraceHgDrWrr, kGraceHgDrTar, kStaticHot, kRandom, kSwiftBalancer, kFlashLb, kEplbTopology,
    kPlugin, kOracle, kPerfect;
extern const StepPolicyEntry kLibra, kLina, kHarmoeny, kFasterMoe, kLeastLoadedEp, kLplb, kWaterfill, kUltraEp, kMoonEp,
    kEcho;
extern const ReplicaChoiceEntry kEven, kSglangStatic, kSglangDynamic, kVllmHash, kAscendRotation, kWeightedRoundRobin,
    kTopologyAware;

std::span<const PlacementPolicyEntry> placement_policies() {
  static const PlacementPolicyEntry all[] = {
      kContiguous, kBase,         kEplb,          kEplbSglang, kEplbVllm,     kCraft,
      kGrace,      kGraceVanilla, kGraceHg,       kGraceHgFr,  kGraceHgDrWrr, kGraceHgDrTar,
      kStaticHot,  kRandom,       kSwiftBalancer, kFlashLb,    kEplbTopology,
  };
  return all;
}

std::span<const StepPolicyEntry> step_policies() {
  static const StepPolicyEntry all[] = {
      kLibra, kLina, kHarmoeny, kFasterMoe, kLeastLoadedEp, kLplb, kWaterfill, kUltraEp, kMoonEp, kEcho,
  };
  return all;
}

std::span<const ReplicaChoiceEntry> replica_choices() {
  static const ReplicaChoiceEntry all[] = {
      kEven, kSglangStatic, kSglangDynamic, kVllmHash, kAscendRotation, kWeightedRoundRobin, kTopologyAware,
  };
  return all;
}

std::span<const PlacementPolicyEntry> ceilings() {
  static const PlacementPolicyEntry all[] = {kOracle, kPerfect};
  return all;
}

const PlacementPolicyEntry& plugin_policy() { return kPlugin; }

const PlacementPolicyEntry& experts_in_order() { return kContiguous; }

std::vector<std::string> diagnosed_policies() {
  return {std::string(kContiguous.name), std::string(kBase.name), std::string(kEplb.name), std::string(kPerfect.name)};
}

std::vector<std::pair<std::string, std::string>> diagnosed_defaults(std::string_view engine) {
  const auto all = placement_policies();
  const auto own = std::find_if(all.begin(), all.end(), [&](const PlacementPolicyEntry& entry) {
    return !entry.engine.empty() && engine.starts_with(entry.engine);
  });
  if (own == all.end()) {
    return {};
  }
  return {{std::string(kBase.name), fmt::format("{{kind: {}, mode: auto}}", kBase.name)},
          {std::string(kEplb.name), fmt::format("{{kind: {}}}", own->name)}};
}

std::vector<std::string> policy_kinds() {
  std::vector<std::string> out = entry_names(placement_policies());
  for (const auto& more : {entry_names(step_policies()), entry_names(ceilings())}) {
    out.insert(out.end(), more.begin(), more.end());
  }
  out.emplace_back(kPlugin.name);
  return out;
}

const PlacementPolicyEntry& placement_policy_entry(const std::string& name, const ConfigReader& options) {
  return name == kPlugin.name ? kPlugin
                              : require_named(placement_policies(), "placement policy", name, options.place(""),
                                              {std::string(kPlugin.name)});
}

std::unique_ptr<ReplicaChoice> make_replica_choice(const std::string& name, ConfigReader& options) {
  return require_named(replica_choices(), "replica choice", name, options.place("")).make(options);
}

}  // namespace epsim
