#include "policies/registry.h"

#include <algorithm>
#include <vector>

namespace epsim {

// Defined beside each policy.
std::unique_ptr<PlacementPolicy> make_contiguous_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_base_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_eplb_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_craft_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_static_hot_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_grace_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_random_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_plugin_placement(ConfigReader& options);

namespace {

constexpr PlacementPolicyEntry kPlacementPolicies[] = {
    {"contiguous", "Experts in order, E / GPUs on each, no copies: what an engine does without a load balancer.",
     "none", make_contiguous_placement},
    {"base", "Greedy packing by load without copies: EPLB's placement step alone (BASE of the CRAFT paper, Sec. 5.1).",
     "mode (global|hierarchical|auto; global), num_groups (1), ties (stable|libstdcxx; stable)", make_base_placement},
    {"eplb", "Copy the hottest experts, then pack by load: deepseek-ai/EPLB, eplb.py at commit d52c72d.",
     "num_redundant_experts (one per GPU), mode (global|hierarchical|auto; global), num_groups (1), "
     "ties (stable|libstdcxx; stable), variant (deepseek|sglang|vllm; deepseek), avoid_duplicates (false)",
     make_eplb_placement},
    {"craft", "Copies where a layer's balance gains most, within an exact budget: CRAFT, Sec. 4 and Algorithms 1 to 3.",
     "replication_factor (number of copies per GPU over all layers, or auto; auto), auto (knee|max_ratio; knee), "
     "objective (gain|gain_times_r; gain), interleave (floor|endpoints; floor), aggregate (false), "
     "floor_division (false), allow_duplicates (false)",
     make_craft_placement},
    {"grace",
     "Groups of experts that serve the same tokens on nodes and GPUs, and copies of the heaviest group's hot experts: "
     "GRACE-MoE, Sec. 4; needs a per-token routing trace.",
     "ratio (number, or knee; 0.15), replication (dynamic|fixed|none; dynamic), prediction (conserving|eq3_literal; "
     "conserving), score (gain|literal_total; gain), max_experts_per_gpu (no bound), seed (0)",
     make_grace_placement},
    {"static_hot",
     "Experts in order, and the hottest ones once more on the coldest GPUs: EPLB as Libra's Sec. 5.2 used it.",
     "copies_per_gpu (1)", make_static_hot_placement},
    {"random", "Experts, and copies of randomly drawn ones, in random order: the baseline that knows nothing.",
     "num_redundant_experts (0), seed (0)", make_random_placement},
};

constexpr PlacementPolicyEntry kPlugin = {
    "plugin",
    "A policy of your own, loaded from a shared object: policies/plugin/plugin.h, experiments/plugin-example.",
    "path (the shared object), and whatever the plug-in itself reads", make_plugin_placement};

}  // namespace

const PlacementPolicyEntry& plugin_policy() { return kPlugin; }

std::span<const PlacementPolicyEntry> placement_policies() { return kPlacementPolicies; }

std::unique_ptr<PlacementPolicy> make_placement_policy(const std::string& name, ConfigReader& options) {
  if (name == kPlugin.name) {
    return kPlugin.make(options);
  }
  const auto entries = placement_policies();
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; });
  if (found == entries.end()) {
    std::vector<std::string> names;
    for (const PlacementPolicyEntry& entry : entries) {
      names.emplace_back(entry.name);
    }
    names.emplace_back(kPlugin.name);
    throw InputError(options.place(""), unknown_name("placement policy", name, names));
  }
  return found->make(options);
}

}  // namespace epsim
