#include "policies/placement/grace/grace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"
#include "sim/domain/affinity.h"

namespace epsim {
namespace {

// Both levels of one layer before sizes are controlled: they do not depend on the ratio.
struct NodeClusters {
  std::vector<int> experts;  // of the node, ascending
  AffinityMatrix affinity;   // among them
  Grouping clusters;         // one per GPU of the node, positions in `experts`
};

std::vector<NodeClusters> cluster_layer(const AffinityMatrix& affinity, const ClusterShape& shape,
                                        const GraceOptions& options) {
  // A node must have an expert for each of its GPUs; otherwise level 1 is free in its sizes.
  const int most = std::min(options.max_experts_per_gpu.value_or(affinity.size()), affinity.size());
  const SizeBounds node_sizes{shape.gpus_per_node, std::min(affinity.size(), most * shape.gpus_per_node)};
  const Grouping nodes =
      control_sizes(affinity, spectral_groups(affinity, shape.nodes(), options.seed), node_sizes, options.score);
  std::vector<NodeClusters> out;
  for (const std::vector<int>& experts : nodes) {
    AffinityMatrix inside = affinity.part(experts);
    Grouping clusters = spectral_groups(inside, shape.gpus_per_node, options.seed);
    out.push_back({experts, std::move(inside), std::move(clusters)});
  }
  return out;
}

// The experts of every GPU for a ratio; adds each node's size deviation to `deviation`.
Grouping groups_of_layer(const std::vector<NodeClusters>& nodes, double ratio, const GraceOptions& options,
                         double& deviation) {
  Grouping out;
  for (const NodeClusters& node : nodes) {
    const auto gpus = static_cast<int>(node.clusters.size());
    SizeBounds sizes = controlled_sizes(node.affinity.size(), gpus, ratio);
    sizes.max = std::min(sizes.max, options.max_experts_per_gpu.value_or(sizes.max));
    const Grouping groups = control_sizes(node.affinity, node.clusters, sizes, options.score);
    deviation += size_deviation(groups) / static_cast<double>(nodes.size());
    for (const std::vector<int>& positions : groups) {
      out.push_back(mapped(positions, [&](int at) { return node.experts[static_cast<std::size_t>(at)]; }));
    }
  }
  return out;
}

// Eq. 1 averaged over layers for the ratios 0.05, 0.10, .., 0.50.
std::vector<RatioPoint> ratio_points(const std::vector<AffinityMatrix>& affinity,
                                     const std::vector<std::vector<NodeClusters>>& layers,
                                     const GraceOptions& options) {
  std::vector<RatioPoint> out;
  const auto count = static_cast<double>(layers.size());
  for (int step = 1; step <= 10; ++step) {
    RatioPoint point{.ratio = 0.05 * step, .utilisation = 0, .deviation = 0};
    for (std::size_t l = 0; l < layers.size(); ++l) {
      double deviation = 0;
      const Grouping groups = groups_of_layer(layers[l], point.ratio, options, deviation);
      point.utilisation += affinity_utilisation(affinity[l], groups) / count;
      point.deviation += deviation / count;
    }
    out.push_back(point);
  }
  return out;
}

// Primaries in their groups, copies after them on the GPUs that were chosen.
LayerPlan place_layer(const Grouping& groups, const GraceCopies& copies) {
  LayerPlan out{.slots = {}, .first_slot = {0}, .copy_rank = {}};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    out.slots.insert(out.slots.end(), groups[g].begin(), groups[g].end());
    out.copy_rank.insert(out.copy_rank.end(), groups[g].size(), 0);
    for (std::size_t i = 0; i < copies.gpus.size(); ++i) {
      if (static_cast<std::size_t>(copies.gpus[i]) == g) {
        out.slots.insert(out.slots.end(), copies.experts.begin(), copies.experts.end());
        out.copy_rank.insert(out.copy_rank.end(), copies.experts.size(), static_cast<int>(i) + 1);
      }
    }
    out.first_slot.push_back(static_cast<int>(out.slots.size()));
  }
  return out;
}

void check_grace(const GraceOptions& options, const LoadWindow& load, const ClusterShape& shape) {
  refuse_if(load.affinity() == nullptr, options.place,
            "grace groups experts that serve the same tokens, which loads alone do not show; give a routing trace with "
            "the expert ids of every token, or affinity_tokens where plan_loads are of kind model.");
  refuse_if(shape.gpus <= 0 || shape.gpus_per_node <= 0 || shape.gpus % shape.gpus_per_node != 0, options.place,
            fmt::format("{} GPUs do not divide into nodes of {}; the GPUs must be a multiple of a node's.", shape.gpus,
                        shape.gpus_per_node));
  refuse_if(load.experts() < shape.gpus, options.place,
            fmt::format("{} experts on {} GPUs leave GPUs without an expert; the GPUs must not outnumber the experts.",
                        load.experts(), shape.gpus));
  if (std::int64_t{options.max_experts_per_gpu.value_or(load.experts())} * shape.gpus < load.experts()) {
    throw InputError(
        options.place,
        fmt::format("max_experts_per_gpu {} on {} GPUs leaves no room for {} experts; it must be at least {}.",
                    *options.max_experts_per_gpu, shape.gpus, load.experts(),
                    (load.experts() + shape.gpus - 1) / shape.gpus));
  }
}

class GracePlacement final : public ExplainedPolicy {
 public:
  explicit GracePlacement(GraceOptions options) : options_(std::move(options)) {}
  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    return grace_plan(options_, load, shape);
  }
  std::optional<PlanExplanation> explain(const LoadWindow& load, const ClusterShape& shape) const override {
    GraceExplanation why;
    grace_plan(options_, load, shape, &why);
    return explain_grace(why, load);
  }

 private:
  GraceOptions options_;
};

// A number, or "knee".
std::optional<double> read_ratio(ConfigReader& in) {
  const std::string text = in.read<std::string>(kGraceKeys["ratio"]);
  if (text == "knee") {
    return std::nullopt;
  }
  const double value = number_from<double>(text).value_or(-1);
  in.check(value >= 0 && value <= 1, "ratio",
           fmt::format("'{}' is neither `knee` nor a share of the ideal group size in 0..1.", text));
  return value;
}

}  // namespace

PlacementPlan grace_plan(const GraceOptions& options, const LoadWindow& load, const ClusterShape& shape,
                         GraceExplanation* why) {
  check_grace(options, load, shape);
  std::vector<AffinityMatrix> affinity;
  std::vector<std::vector<NodeClusters>> layers;
  for (int l = 0; l < load.layers(); ++l) {
    const std::span<const double> values = load.affinity()->layer(l);
    affinity.emplace_back(load.experts(), std::vector<double>(values.begin(), values.end()));
    layers.push_back(cluster_layer(affinity.back(), shape, options));
  }
  std::vector<RatioPoint> points;
  if (!options.ratio) {
    points = ratio_points(affinity, layers, options);
  }
  const double ratio = options.ratio ? *options.ratio : choose_ratio(points);
  if (why != nullptr) {
    *why = {ratio, points, {}, {}};
  }
  PlacementPlan out{.policy = "grace", .experts = load.experts(), .gpus = shape.gpus, .layers = {}};
  for (int l = 0; l < load.layers(); ++l) {
    double deviation = 0;
    const Grouping groups = groups_of_layer(layers[static_cast<std::size_t>(l)], ratio, options, deviation);
    const GraceCopies copies = replicate_heaviest(load.layer(l), groups, options.replication, options.prediction);
    out.layers.push_back(place_layer(groups, copies));
    if (why != nullptr) {
      why->groups.push_back(groups);
      why->copies.push_back(copies);
    }
  }
  return out;
}

GraceOptions read_grace_options(ConfigReader& in) {
  GraceOptions out;
  out.ratio = read_ratio(in);
  out.replication = in.read<GraceReplication>(kGraceKeys["replication"]);
  out.prediction = in.read<Prediction>(kGraceKeys["prediction"]);
  out.score = in.read<GraceScore>(kGraceKeys["score"]);
  out.max_experts_per_gpu = in.maybe<int>(kGraceKeys["max_experts_per_gpu"]);
  out.seed = Seed{static_cast<std::uint64_t>(in.read<std::int64_t>(kGraceKeys["seed"]))};
  out.place = in.place("");
  return out;
}

std::unique_ptr<PlacementPolicy> make_grace(ConfigReader& options) {
  return std::make_unique<GracePlacement>(read_grace_options(options));
}

extern const PlacementPolicyEntry kGrace{
    {"grace",
     "Groups of experts that serve the same tokens on nodes and GPUs, and copies of the heaviest group's hot experts: "
     "GRACE-MoE, Sec. 4; needs a per-token routing trace.",
     kGraceIgnores, kGraceKeys, make_grace}};

}  // namespace epsim
