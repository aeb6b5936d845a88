#include "policies/registry.h"

namespace epsim {

// Defined beside each policy.
std::unique_ptr<PlacementPolicy> make_contiguous_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_base_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_eplb_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_sglang_eplb(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_vllm_eplb(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_craft_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_static_hot_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_grace_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_grace_vanilla(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_grace_hg(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_grace_hg_fr(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_grace_hg_dr_wrr(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_grace_hg_dr_tar(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_random_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_plugin_placement(ConfigReader& options);

namespace {

constexpr std::string_view kGraceIgnores = "equal memory on all GPUs (groups differ in size); who sends the tokens";

constexpr PlacementPolicyEntry kPlacementPolicies[] = {
    {{"contiguous", "Experts in order, E / GPUs on each, no copies: what an engine does without a load balancer.",
      "loads, nodes", "num_redundant_experts (0; SGLang's trivial placement: slots start over at expert 0)",
      make_contiguous_placement}},
    {{"base", "Greedy packing by load without copies: EPLB's placement step alone (BASE of the CRAFT paper, Sec. 5.1).",
      "batches (loads are summed), affinity, where experts were before",
      "mode (global|hierarchical|auto; global), num_groups (1), ties (stable|libstdcxx; stable)", make_base_placement},
     ExpertGroups::kAsArgument},
    {{"eplb", "Copy the hottest experts, then pack by load: deepseek-ai/EPLB, eplb.py at commit d52c72d.",
      "batches (loads are summed), affinity, memory, two copies on one GPU unless avoid_duplicates",
      "num_redundant_experts (one per GPU), mode (global|hierarchical|auto; global), num_groups (1), "
      "ties (stable|libstdcxx; stable), variant (deepseek|sglang|vllm; deepseek), avoid_duplicates (false)",
      make_eplb_placement},
     ExpertGroups::kAsArgument,
     CopyBudget::kPerLayer},
    {{"eplb_sglang", "EPLB as SGLang runs it: variant sglang, mode auto, copies chosen by sglang_static.", "as eplb",
      "those of eplb", make_sglang_eplb},
     ExpertGroups::kAsArgument,
     CopyBudget::kPerLayer,
     "sglang_static"},
    {{"eplb_vllm", "EPLB as vLLM runs it: variant vllm, mode auto, copies chosen by vllm_hash.", "as eplb",
      "those of eplb", make_vllm_eplb},
     ExpertGroups::kAsArgument,
     CopyBudget::kPerLayer,
     "vllm_hash",
     true},
    {{"craft",
      "Copies where a layer's balance gains most, within an exact budget: CRAFT, Sec. 4 and Algorithms 1 to 3.",
      "affinity, nodes unless mode hierarchical or interleave least_filled_node, layers changing later",
      "replication_factor (number of copies per GPU over all layers, or auto; auto), auto (knee|max_ratio; knee), "
      "objective (gain|gain_times_r; gain), interleave (floor|endpoints|least_filled_node; floor), aggregate (false), "
      "floor_division (false), clamp_gains (false), budget (exact|at_most; exact), allow_duplicates (false), ties "
      "(less_room|lower_id; less_room), mode (global|hierarchical|auto; global), num_groups (1)",
      make_craft_placement},
     ExpertGroups::kOnRequest,
     CopyBudget::kOverLayers},
    {{"grace",
      "Groups of experts that serve the same tokens on nodes and GPUs, and copies of the heaviest group's hot experts: "
      "GRACE-MoE, Sec. 4; needs a per-token routing trace.",
      kGraceIgnores,
      "ratio (number, or knee; 0.15), replication (dynamic|fixed|none; dynamic), prediction (conserving|eq3_literal; "
      "conserving), score (gain|literal_total; gain), max_experts_per_gpu (no bound), seed (0)",
      make_grace_placement}},
    {{"grace_vanilla", "Vanilla of GRACE-MoE's component study (Sec. 5.3): as many experts in order on each GPU.",
      "loads, nodes", "none", make_grace_vanilla}},
    {{"grace_hg", "HG of GRACE-MoE's component study: groups by affinity on nodes and GPUs, no copies.", kGraceIgnores,
      "those of grace", make_grace_hg}},
    {{"grace_hg_fr", "HG+FR: hot experts of the heaviest group once more on the lightest GPU, copies share evenly.",
      kGraceIgnores, "those of grace", make_grace_hg_fr}},
    {{"grace_hg_dr_wrr", "HG+DR+WRR: as many copies as the skew asks for (Eq. 2), chosen by weighted_round_robin.",
      kGraceIgnores, "those of grace", make_grace_hg_dr_wrr},
     ExpertGroups::kUnknown,
     CopyBudget::kFixed,
     "weighted_round_robin"},
    {{"grace_hg_dr_tar", "HG+DR+TAR, all of GRACE-MoE: copies as in HG+DR+WRR, chosen by topology_aware.",
      kGraceIgnores, "those of grace", make_grace_hg_dr_tar},
     ExpertGroups::kUnknown,
     CopyBudget::kFixed,
     "topology_aware"},
    {{"static_hot",
      "Experts in order, and the hottest ones once more on the coldest GPUs: EPLB as Libra's Sec. 5.2 used it.",
      "batches (loads are summed), affinity, nodes, what copies do to a GPU's load", "copies_per_gpu (1)",
      make_static_hot_placement}},
    {{"random", "Experts, and copies of randomly drawn ones, in random order: the baseline that knows nothing.",
      "loads, nodes", "num_redundant_experts (0), seed (0)", make_random_placement},
     ExpertGroups::kUnknown,
     CopyBudget::kPerLayer},
};

constexpr PlacementPolicyEntry kPlugin = {
    {"plugin",
     "A policy of your own, loaded from a shared object: policies/plugin/plugin.h, experiments/plugin-example.",
     "what it likes", "path (the shared object), and whatever the plug-in itself reads", make_plugin_placement}};

}  // namespace

const PlacementPolicyEntry& plugin_policy() { return kPlugin; }

std::span<const PlacementPolicyEntry> placement_policies() { return kPlacementPolicies; }

const PlacementPolicyEntry& placement_policy_entry(const std::string& name, const ConfigReader& options) {
  return name == kPlugin.name
             ? kPlugin
             : require_named(placement_policies(), "placement policy", name, options, {std::string(kPlugin.name)});
}

std::unique_ptr<PlacementPolicy> make_placement_policy(const std::string& name, ConfigReader& options) {
  return placement_policy_entry(name, options).make(options);
}

}  // namespace epsim
