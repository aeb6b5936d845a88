#include "policies/replica_choice/registry.h"

#include <vector>

namespace epsim {

// Defined beside each choice.
std::unique_ptr<ReplicaChoice> make_even_choice(ConfigReader& options);
std::unique_ptr<ReplicaChoice> make_sglang_static_choice(ConfigReader& options);
std::unique_ptr<ReplicaChoice> make_sglang_dynamic_choice(ConfigReader& options);
std::unique_ptr<ReplicaChoice> make_vllm_hash_choice(ConfigReader& options);
std::unique_ptr<ReplicaChoice> make_ascend_rotation_choice(ConfigReader& options);
std::unique_ptr<ReplicaChoice> make_weighted_round_robin_choice(ConfigReader& options);
std::unique_ptr<ReplicaChoice> make_topology_aware_choice(ConfigReader& options);

namespace {

constexpr std::string_view kGraceOptions =
    "prediction (conserving|eq3_literal; conserving), draw (random|smooth; random), tokens (of an expert, per source "
    "and step, for smooth; 256)";

constexpr ReplicaChoiceEntry kReplicaChoices[] = {
    {"even", "Copies of an expert share its tokens equally, wherever they come from (CRAFT's balancedness, Sec. 3.1).",
     "where tokens are, loads", "none", make_even_choice},
    {"sglang_static",
     "A fixed copy per GPU and expert: on the same GPU, else in the same node, else dealt out fairly (SGLang, static).",
     "loads", "prefer_same_node (true), seed (42)", make_sglang_static_choice},
    {"sglang_dynamic", "A random copy for every token: 16 random bits modulo the number of copies (SGLang, dynamic).",
     "where tokens are, loads, the spread of the draw", "none", make_sglang_dynamic_choice},
    {"vllm_hash", "The token's row, hashed by multiplication, modulo the number of copies (vLLM since PR 40810).",
     "where tokens are, loads", "tokens (per GPU and step; 256)", make_vllm_hash_choice},
    {"ascend_rotation",
     "Token row + GPU + expert, modulo the number of copies, with rows repeating after 1024 (vllm-ascend).",
     "loads, which node a copy is on", "tokens (per GPU and step; 1024)", make_ascend_rotation_choice},
    {"weighted_round_robin",
     "Any copy, with weights inverse to the predicted load of its GPU (WRR of GRACE-MoE, Sec. 4.3, Algorithm 3).",
     "where tokens are, loads of the step itself", kGraceOptions, make_weighted_round_robin_choice},
    {"topology_aware",
     "A copy on the token's GPU, else one in its node, else any, by the same weights (TAR of GRACE-MoE, Algorithm 4).",
     "loads of the step itself: a local copy is taken even where its GPU is overloaded", kGraceOptions,
     make_topology_aware_choice},
};

}  // namespace

std::span<const ReplicaChoiceEntry> replica_choices() { return kReplicaChoices; }

std::unique_ptr<ReplicaChoice> make_replica_choice(const std::string& name, ConfigReader& options) {
  return require_named(replica_choices(), "replica choice", name, options).make(options);
}

std::vector<SourceShares> choose_replicas(const ReplicaChoice& choice, const PlacementPlan& plan,
                                          const LoadWindow& window, const ClusterShape& shape) {
  std::vector<SourceShares> out;
  for (int l = 0; l < static_cast<int>(plan.layers.size()); ++l) {
    out.push_back(choice.shares({plan.layers[static_cast<std::size_t>(l)], l, window.layer(l), shape}));
  }
  return out;
}

}  // namespace epsim
