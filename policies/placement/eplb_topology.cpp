// EPLB whose copies go to other nodes, so that tokens find one inside their own.
//   Models : groups packed onto nodes by load, as hierarchical EPLB does; then copies one by one of the expert with
//            most load a copy, each onto the node with most slots left among those that do not hold the expert (where
//            all do: among all); then each node's experts packed onto its GPUs by load a copy.
//   Readings: where groups do not divide over nodes, which the original refuses, every expert is a group of its own.
//   Ignores: what links cost (SGLang PR 37923, which makes no copies, takes a matrix of costs); which experts go
//            together (antgroup/sglang PR 2 swaps groups between nodes for that; here `grace` places by affinity).
//   Source : SGLang PR 19811, the same design as PR 19772 (RFC 19487), rebalance_experts_topology_aware; both closed,
//            not in SGLang; behaviour only.
//   Valid  : a case done by hand (tests/policies/baseline_placements_test.cpp), and the properties of every
//            placement policy.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "policies/placement/eplb.h"
#include "policies/placement/packing.h"
#include "sim/core/check.h"
#include "sim/core/mapped.h"

namespace epsim {
namespace {

class SpreadLayer {
 public:
  SpreadLayer(std::span<const float> loads, const EplbShape& shape, const ClusterShape& cluster, TieOrder ties)
      : loads_(loads),
        room_(static_cast<std::size_t>(shape.physical / cluster.nodes())),
        nodes_(static_cast<std::size_t>(cluster.nodes())),
        copies_(loads.size(), 1) {
    const std::vector<int> order = experts_by_node<float>(loads, shape.groups, cluster.nodes(), ties);
    for (std::size_t i = 0; i < order.size(); ++i) {
      nodes_[i * nodes_.size() / order.size()].push_back({order[i], 0});
    }
    for (int c = static_cast<int>(loads.size()); c < shape.physical; ++c) {
      add_copy();
    }
  }

  LayerPlan pack(int gpus_per_node, TieOrder ties) const {
    std::vector<int> slots(room_ * nodes_.size()), ranks(slots.size());
    const std::size_t per_gpu = room_ / static_cast<std::size_t>(gpus_per_node);
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      const std::vector<float> loads = mapped(nodes_[n], [&](const Copy& copy) { return share(copy.expert); });
      const Packing packing = pack_equally<float>(std::span<const float>(loads), gpus_per_node, ties);
      for (std::size_t i = 0; i < loads.size(); ++i) {
        const std::size_t slot =
            n * room_ + static_cast<std::size_t>(packing.pack[i]) * per_gpu + static_cast<std::size_t>(packing.rank[i]);
        slots[slot] = nodes_[n][i].expert;
        ranks[slot] = nodes_[n][i].rank;
      }
    }
    LayerPlan out = uniform_layer(std::move(slots), gpus_per_node * static_cast<int>(nodes_.size()));
    out.copy_rank = std::move(ranks);
    return out;
  }

 private:
  struct Copy {
    int expert, rank;
  };
  float share(int e) const {
    return loads_[static_cast<std::size_t>(e)] / static_cast<float>(copies_[static_cast<std::size_t>(e)]);
  }

  void add_copy() {
    int hottest = 0;
    for (int e = 1; e < std::ssize(copies_); ++e) {
      hottest = share(e) > share(hottest) ? e : hottest;
    }
    std::vector<Copy>* best = nullptr;
    bool best_holds = true;
    for (std::vector<Copy>& node : nodes_) {
      const bool holds = std::any_of(node.begin(), node.end(), [&](const Copy& c) { return c.expert == hottest; });
      if (node.size() < room_ &&
          (best == nullptr || std::pair(holds, node.size()) < std::pair(best_holds, best->size()))) {
        best = &node;
        best_holds = holds;
      }
    }
    EPSIM_CHECK(best != nullptr, "more copies than slots");
    best->push_back({hottest, copies_[static_cast<std::size_t>(hottest)]++});
  }

  std::span<const float> loads_;
  std::size_t room_;                      // slots of a node
  std::vector<std::vector<Copy>> nodes_;  // originals first
  std::vector<int> copies_;               // [expert]
};

class TopologyEplb final : public PlacementPolicy {
 public:
  explicit TopologyEplb(EplbOptions options) : options_(std::move(options)) {}

  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    EplbOptions options = options_;
    options.mode = EplbMode::kHierarchical;
    options.groups = options.groups % shape.nodes() == 0 ? options.groups : load.experts();
    const EplbShape checked = check_eplb(options, load.experts(), shape);
    PlacementPlan out{.policy = "eplb_topology", .experts = load.experts(), .gpus = shape.gpus, .layers = {}};
    for (int l = 0; l < load.layers(); ++l) {
      const std::span<const double> row = load.layer(l);
      const std::vector<float> loads(row.begin(), row.end());
      out.layers.push_back(SpreadLayer(loads, checked, shape, options.ties).pack(shape.gpus_per_node, options.ties));
    }
    return out;
  }

 private:
  EplbOptions options_;
};

constexpr KeyTable kTopologyKeys({kCopiesKey, kGroupsKey, kTiesKey});

std::unique_ptr<PlacementPolicy> make_topology_eplb(ConfigReader& in) {
  EplbOptions options;
  options.redundant_experts = in.maybe<int>(kCopiesKey);
  options.groups = in.read(kGroupsKey, 1);
  options.ties = in.read<TieOrder>(kTiesKey);
  options.place = in.place("");
  return std::make_unique<TopologyEplb>(std::move(options));
}

}  // namespace

extern const PlacementPolicyEntry kEplbTopology{
    {"eplb_topology", "EPLB with copies spread over nodes, chosen near their tokens: SGLang PR 19772.",
     "batches (loads are summed), affinity, what links cost, two copies on one GPU", kTopologyKeys, make_topology_eplb},
    ExpertGroups::kAsArgument,
    CopyBudget::kPerLayer,
    "sglang_static"};

}  // namespace epsim
