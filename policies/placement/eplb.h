// Expert-parallel load balancer with the semantics of deepseek-ai/EPLB.
//   Source : github.com/deepseek-ai/EPLB, eplb.py at commit d52c72d; behaviour only.
//   Arithmetic: float32 throughout (loads, load per copy, pack loads), so that results agree to the last bit; the
//            variants that engines carry differ in it (EplbVariant).
//   Ignores: two copies of one expert on one GPU are not avoided unless asked for, as in the original; where experts
//            were before (rebalance/keep_in_place.h makes up for that).
//   Valid  : loads are rounded to float32. Group sums (hierarchical mode) are taken in double and rounded once: equal
//            to the original below 2^24, where its own vectorised sum becomes order dependent.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policies/placement/packing.h"
#include "policies/registry.h"

namespace epsim {

// kGlobal: nodes and groups play no part. kHierarchical: expert groups are packed onto nodes first, copies and packing
// stay inside each node. kAuto: hierarchical iff the groups divide over the nodes (what eplb.py does).
enum class EplbMode { kGlobal, kHierarchical, kAuto };
template <>
inline constexpr auto kNames<EplbMode> = choice<EplbMode>({{"global", EplbMode::kGlobal},
                                                           {"hierarchical", EplbMode::kHierarchical},
                                                           {"auto", EplbMode::kAuto}});

// Whose arithmetic. kSglang: pack loads are accumulated in double. kVllm: loads per copy and pack loads are double.
// Sources: the list variant of sgl-project/sglang (srt/eplb/eplb_algorithms/deepseek.py), vllm-project/vllm at 02c1119
// (distributed/eplb/policy/default.py).
enum class EplbVariant { kDeepseek, kSglang, kVllm };
template <>
inline constexpr auto kNames<EplbVariant> = choice<EplbVariant>({{"deepseek", EplbVariant::kDeepseek},
                                                                 {"sglang", EplbVariant::kSglang},
                                                                 {"vllm", EplbVariant::kVllm}});

struct EplbOptions {
  std::optional<int> redundant_experts;  // extra copies per layer over all GPUs; absent = one per GPU
  EplbMode mode = EplbMode::kGlobal;
  int groups = 1;  // expert groups of the model's router
  TieOrder ties = TieOrder::kStable;
  EplbVariant variant = EplbVariant::kDeepseek;
  bool avoid_duplicates = false;  // copies of an expert apart while room allows (capacity_packing.h)
  InputPlace place;               // where the options stand, for messages
};

// Keys that several policies share: the copies of a layer, and packing by groups and nodes.
inline constexpr Key kCopiesKey{"num_redundant_experts", key::whole(), key::by("one per GPU"),
                                "Copies per layer, over all GPUs."};
inline constexpr Key kModeKey{"mode", key::one_of<EplbMode>(), key::is(EplbMode::kGlobal),
                              "Whether experts are first packed onto nodes, by groups."};
inline constexpr Key kGroupsKey{"num_groups", key::whole(Bound::kPositive), key::by("the model's"),
                                "Expert groups for hierarchical packing."};
inline constexpr Key kTiesKey{"ties", key::one_of<TieOrder>(), key::is(TieOrder::kStable), "Order of equal loads."};
inline constexpr KeyTable kEplbKeys({
    kCopiesKey,
    kModeKey,
    kGroupsKey,
    kTiesKey,
    {"variant", key::one_of<EplbVariant>(), key::is(EplbVariant::kDeepseek), "Which implementation of EPLB."},
    {"avoid_duplicates", key::flag(), key::is(false), "Never two copies of an expert on one GPU."},
});
std::unique_ptr<PlacementPolicy> make_eplb(ConfigReader& options);

// The factory of policies whose only option is the number of copies.
inline constexpr KeyTable kCopiesKeys({kCopiesKey});
template <class Policy>
std::unique_ptr<PlacementPolicy> make_with_copies(ConfigReader& in) {
  EplbOptions options;
  options.redundant_experts = in.maybe<int>(kCopiesKey);
  options.place = in.place("");
  return std::make_unique<Policy>(std::move(options));
}

// Logical experts in the order in which nodes hold them: whole groups at a time, groups packed onto nodes by load, as
// many on each. Groups divide the experts and nodes the groups. Sum: the type in which a node's load is accumulated.
template <class Sum>
std::vector<int> experts_by_node(std::span<const float> loads, int groups, int nodes, TieOrder ties);

// What matters to one layer once the options have been checked. `groups` and `nodes` are 1 in global mode.
struct EplbShape {
  int physical = 0, groups = 1, nodes = 1, gpus = 1;
};
LayerPlan eplb_layer(std::span<const float> loads, const EplbShape& shape, const EplbOptions& options);

// What the options come to on a cluster. Throws InputError unless experts divide over groups, GPUs over nodes, physical
// experts over GPUs, there are at least as many as experts, and, in hierarchical mode, groups divide over nodes.
EplbShape check_eplb(const EplbOptions& options, int experts, const ClusterShape& shape);

// Reads mode, num_groups and ties (`base` and `eplb` share them).
EplbOptions read_eplb_options(ConfigReader& in);

PlacementPlan eplb_plan(const std::string& name, const EplbOptions& options, const LoadWindow& load,
                        const ClusterShape& shape);

}  // namespace epsim
