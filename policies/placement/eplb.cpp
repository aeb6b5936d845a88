#include "policies/placement/eplb.h"

#include <fmt/format.h>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "policies/placement/capacity_packing.h"
#include "sim/core/refuse.h"

namespace epsim {
namespace {

// Where one node's slots are filled: its part of the layer's arrays.
struct NodeSlots {
  std::span<int> expert, rank;
  int gpus;
};

// Steps 2 and 3 inside one node: copies for its experts, then its slots filled. `experts` are logical ids. Loads are
// divided as Real and summed as Sum.
template <class Real, class Sum>
void fill_node(std::span<const float> loads, std::span<const int> experts, TieOrder ties, const NodeSlots& node) {
  std::vector<Real> own(experts.size());
  for (std::size_t i = 0; i < experts.size(); ++i) {
    own[i] = loads[static_cast<std::size_t>(experts[i])];
  }
  const Replicas replicas = replicate_hottest<Real>(own, static_cast<int>(node.expert.size()));
  std::vector<Real> per_copy(node.expert.size());
  for (std::size_t p = 0; p < per_copy.size(); ++p) {
    const auto e = static_cast<std::size_t>(replicas.expert[p]);
    per_copy[p] = own[e] / static_cast<Real>(replicas.copies[e]);
  }
  const Packing packing = pack_equally<Real, Sum>(per_copy, node.gpus, ties);
  const int per_gpu = static_cast<int>(node.expert.size()) / node.gpus;
  for (std::size_t p = 0; p < per_copy.size(); ++p) {
    const int slot = packing.pack[p] * per_gpu + packing.rank[p];
    node.expert[static_cast<std::size_t>(slot)] = experts[static_cast<std::size_t>(replicas.expert[p])];
    node.rank[static_cast<std::size_t>(slot)] = replicas.rank[p];
  }
}

// The same with copies kept apart.
void fill_node_without_duplicates(std::span<const float> loads, std::span<const int> experts, const NodeSlots& node) {
  std::vector<double> own(experts.size());
  for (std::size_t i = 0; i < experts.size(); ++i) {
    own[i] = static_cast<double>(loads[static_cast<std::size_t>(experts[i])]);
  }
  const std::vector<int> capacity(static_cast<std::size_t>(node.gpus),
                                  static_cast<int>(node.expert.size()) / node.gpus);
  const LayerPlan placed = place_by_capacity(own, capacity, false);
  for (std::size_t slot = 0; slot < placed.slots.size(); ++slot) {
    node.expert[slot] = experts[static_cast<std::size_t>(placed.slots[slot])];
    node.rank[slot] = placed.copy_rank[slot];
  }
}

void fill_node(std::span<const float> loads, std::span<const int> experts, const EplbOptions& options,
               const NodeSlots& node) {
  if (options.avoid_duplicates) {
    fill_node_without_duplicates(loads, experts, node);
  } else if (options.variant == EplbVariant::kDeepseek) {
    fill_node<float, float>(loads, experts, options.ties, node);
  } else if (options.variant == EplbVariant::kSglang) {
    fill_node<float, double>(loads, experts, options.ties, node);
  } else {
    fill_node<double, double>(loads, experts, options.ties, node);
  }
}

class EplbPlacement final : public PlacementPolicy {
 public:
  EplbPlacement(std::string name, EplbOptions options) : name_(std::move(name)), options_(std::move(options)) {}
  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    return eplb_plan(name_, options_, load, shape);
  }

 private:
  std::string name_;
  EplbOptions options_;
};

}  // namespace

template <class Sum>
std::vector<int> experts_by_node(std::span<const float> loads, int groups, int nodes, TieOrder ties) {
  const auto count = static_cast<std::size_t>(groups);
  const std::size_t group_size = loads.size() / count;
  std::vector<float> group_loads(count);
  for (std::size_t g = 0; g < count; ++g) {
    const std::span<const float> members = loads.subspan(g * group_size, group_size);
    group_loads[g] = static_cast<float>(std::accumulate(members.begin(), members.end(), 0.0));
  }
  const Packing packed = pack_equally<float, Sum>(group_loads, nodes, ties);
  const int groups_per_node = groups / nodes;
  std::vector<int> order(loads.size());
  for (std::size_t g = 0; g < count; ++g) {
    const int position = packed.pack[g] * groups_per_node + packed.rank[g];
    for (std::size_t i = 0; i < group_size; ++i) {
      order[static_cast<std::size_t>(position) * group_size + i] = static_cast<int>(g * group_size + i);
    }
  }
  return order;
}

template std::vector<int> experts_by_node<float>(std::span<const float>, int, int, TieOrder);
template std::vector<int> experts_by_node<double>(std::span<const float>, int, int, TieOrder);

LayerPlan eplb_layer(std::span<const float> loads, const EplbShape& shape, const EplbOptions& options) {
  const auto nodes = static_cast<std::size_t>(shape.nodes);
  const auto physical = static_cast<std::size_t>(shape.physical);
  const std::vector<int> experts = options.variant == EplbVariant::kDeepseek
                                       ? experts_by_node<float>(loads, shape.groups, shape.nodes, options.ties)
                                       : experts_by_node<double>(loads, shape.groups, shape.nodes, options.ties);
  std::vector<int> slots(physical), ranks(physical);
  const std::size_t share = loads.size() / nodes, room = physical / nodes;
  for (std::size_t n = 0; n < nodes; ++n) {
    fill_node(
        loads, std::span(experts).subspan(n * share, share), options,
        {std::span(slots).subspan(n * room, room), std::span(ranks).subspan(n * room, room), shape.gpus / shape.nodes});
  }
  LayerPlan out = uniform_layer(std::move(slots), shape.gpus);
  out.copy_rank = std::move(ranks);
  return out;
}

EplbShape check_eplb(const EplbOptions& options, int experts, const ClusterShape& shape) {
  const auto require = [&](bool holds, const std::string& problem) { refuse_if(!holds, options.place, problem); };
  require(shape.gpus > 0 && shape.gpus_per_node > 0 && shape.gpus % shape.gpus_per_node == 0,
          fmt::format("{} GPUs do not divide into nodes of {}; the GPUs must be a multiple of a node's.", shape.gpus,
                      shape.gpus_per_node));
  const int nodes = shape.nodes();
  const int redundant = options.redundant_experts.value_or(shape.gpus);
  const int physical = experts + redundant;
  require(redundant >= 0, fmt::format("{} physical experts cannot hold {} experts; num_redundant_experts must be at "
                                      "least 0.",
                                      physical, experts));
  const int next = (shape.gpus - experts % shape.gpus) % shape.gpus;
  require(
      physical % shape.gpus == 0,
      fmt::format("{} experts with {} copies do not divide over {} GPUs; policy eplb with num_redundant_experts = {}, "
                  "or that plus a multiple of {}, does.",
                  experts, redundant, shape.gpus, next, shape.gpus));
  require(options.groups > 0 && experts % options.groups == 0,
          fmt::format("{} experts do not divide into {} groups; num_groups must divide the experts.", experts,
                      options.groups));
  const bool divides = options.groups % nodes == 0;
  require(options.mode != EplbMode::kHierarchical || divides,
          fmt::format("hierarchical mode puts whole groups on nodes, and {} groups do not divide over {} nodes; "
                      "use mode global or auto, or a num_groups that is a multiple of the nodes.",
                      options.groups, nodes));
  const bool hierarchical = options.mode != EplbMode::kGlobal && divides;
  const int packed = shape.gpus / (hierarchical ? nodes : 1);  // GPUs that an expert's copies are on
  const std::int64_t most = std::int64_t{experts} * (packed - 1);
  require(!options.avoid_duplicates || redundant <= most,
          fmt::format("{} copies of {} experts cannot all be on different ones of {} GPUs; with avoid_duplicates, "
                      "num_redundant_experts is at most {}.",
                      redundant, experts, packed, most));
  return hierarchical ? EplbShape{physical, options.groups, nodes, shape.gpus} : EplbShape{physical, 1, 1, shape.gpus};
}

EplbOptions read_eplb_options(ConfigReader& in) {
  EplbOptions out;
  out.mode = in.read<EplbMode>(kModeKey);
  out.groups = in.read(kGroupsKey, 1);
  out.ties = in.read<TieOrder>(kTiesKey);
  out.place = in.place("");
  return out;
}

PlacementPlan eplb_plan(const std::string& name, const EplbOptions& options, const LoadWindow& load,
                        const ClusterShape& shape) {
  const EplbShape layer_shape = check_eplb(options, load.experts(), shape);
  PlacementPlan out{.policy = name, .experts = load.experts(), .gpus = shape.gpus, .layers = {}};
  out.layers.reserve(static_cast<std::size_t>(load.layers()));
  std::vector<float> loads(static_cast<std::size_t>(load.experts()));
  for (int l = 0; l < load.layers(); ++l) {
    const std::span<const double> row = load.layer(l);
    for (std::size_t e = 0; e < row.size(); ++e) {
      loads[e] = static_cast<float>(row[e]);
    }
    out.layers.push_back(eplb_layer(loads, layer_shape, options));
  }
  return out;
}

std::unique_ptr<PlacementPolicy> make_eplb(ConfigReader& options) {
  EplbOptions read = read_eplb_options(options);
  read.redundant_experts = options.maybe<int>(kCopiesKey);
  read.variant = options.read<EplbVariant>(kEplbKeys["variant"]);
  read.avoid_duplicates = options.read<bool>(kEplbKeys["avoid_duplicates"]);
  return std::make_unique<EplbPlacement>("eplb", std::move(read));
}

namespace {

constexpr KeyTable kBaseKeys({kModeKey, kGroupsKey, kTiesKey});

std::unique_ptr<PlacementPolicy> make_base(ConfigReader& options) {
  EplbOptions read = read_eplb_options(options);
  read.redundant_experts = 0;
  return std::make_unique<EplbPlacement>("base", std::move(read));
}

}  // namespace

extern const PlacementPolicyEntry kBase{
    {"base", "Greedy packing by load without copies: EPLB's placement step alone (BASE of the CRAFT paper, Sec. 5.1).",
     "batches (loads are summed), affinity, where experts were before", kBaseKeys, make_base},
    ExpertGroups::kAsArgument};
extern const PlacementPolicyEntry kEplb{
    {"eplb", "Copy the hottest experts, then pack by load: deepseek-ai/EPLB, eplb.py at commit d52c72d.",
     "batches (loads are summed), affinity, memory, two copies on one GPU unless avoid_duplicates", kEplbKeys,
     make_eplb},
    ExpertGroups::kAsArgument,
    CopyBudget::kPerLayer};
extern const PlacementPolicyEntry kOracle{
    {"oracle", "EPLB fitted on the very loads that the run is scored on: what better forecasts could give.",
     "that the future is unknown", kEplbKeys, make_eplb},
    ExpertGroups::kAsArgument,
    CopyBudget::kPerLayer,
    {},
    false,
    Ceiling::kKnowsRunLoads};

}  // namespace epsim
