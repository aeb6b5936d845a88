#include "policies/placement/craft/craft.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "policies/placement/craft/layout.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"

namespace epsim {
namespace {

constexpr KeyTable kCraftKeys({
    {"replication_factor", key::text(), key::is("auto"), "Copies per GPU over all layers, or auto."},
    {"auto", key::one_of<AutoFactor>(), key::is(AutoFactor::kKnee), "How auto chooses replication_factor."},
    {"objective", key::one_of<CraftObjective>(), key::is(CraftObjective::kGain), "What the copies maximise."},
    {"interleave", key::one_of<Interleave>(), key::is(Interleave::kFloor),
     "How a layer's uneven capacity is spread over GPUs."},
    {"aggregate", key::flag(), key::is(false), "Estimate gains on the sum of the window instead of its batches."},
    {"floor_division", key::flag(), key::is(false), "Divide an expert's load over copies in whole tokens."},
    {"clamp_gains", key::flag(), key::is(false), "Treat negative gains as 0."},
    {"budget", key::one_of<CraftBudget>(), key::is(CraftBudget::kExact), "Whether all copies must be used."},
    {"allow_duplicates", key::flag(), key::is(false), "Allow two copies of an expert on one GPU."},
    {"ties", key::one_of<GpuTies>(), key::is(GpuTies::kLessRoom), "Which of equally loaded GPUs takes an expert."},
    kModeKey,
    kGroupsKey,
});

// A number, or "auto".
std::optional<int> read_factor(ConfigReader& in) {
  const std::string text = in.read<std::string>(kCraftKeys["replication_factor"]);
  if (text == "auto") {
    return std::nullopt;
  }
  const int value = number_from<int>(text).value_or(-1);
  in.check(value >= 0, "replication_factor",
           fmt::format("'{}' is neither `auto` nor a whole number of copies per GPU, 0 or more.", text));
  return value;
}

void check_craft(const CraftOptions& options, const LoadWindow& load, const ClusterShape& shape) {
  const auto require = [&](bool holds, const std::string& problem) { refuse_if(!holds, options.place, problem); };
  require(shape.gpus > 0 && shape.gpus_per_node > 0 && shape.gpus % shape.gpus_per_node == 0,
          fmt::format("{} GPUs do not divide into nodes of {}; the GPUs must be a multiple of a node's.", shape.gpus,
                      shape.gpus_per_node));
  require(load.experts() >= shape.gpus, fmt::format("{} experts on {} GPUs leave GPUs without an expert; the GPUs must "
                                                    "not outnumber the experts.",
                                                    load.experts(), shape.gpus));
  require(options.replication_factor.value_or(0) <= load.layers(),
          fmt::format("replication_factor {} is more than one copy per GPU and layer; at most {} is allowed.",
                      options.replication_factor.value_or(0), load.layers()));
}

// Hierarchical placement takes whole groups to nodes.
CraftLayout layout_of(const CraftOptions& options, int experts, const ClusterShape& shape) {
  const bool possible = experts % options.groups == 0 && options.groups % shape.nodes() == 0;
  refuse_if(options.mode == EplbMode::kHierarchical && !possible, options.place,
            fmt::format("hierarchical mode puts whole groups on nodes: num_groups must divide {} experts and be a "
                        "multiple of {} nodes, and {} is not; or use mode global.",
                        experts, shape.nodes(), options.groups));
  return {.gpus = shape.gpus,
          .gpus_per_node = shape.gpus_per_node,
          .hierarchical = options.mode != EplbMode::kGlobal && possible,
          .groups = options.groups};
}

class CraftPlacement final : public ExplainedPolicy {
 public:
  explicit CraftPlacement(CraftOptions options) : options_(std::move(options)) {}
  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    return craft_plan(options_, load, shape);
  }
  // With as many copies as it has, which memory was left for.
  PlacementPlan replan(const LoadWindow& load, const ClusterShape& shape,
                       const PlacementPlan& previous) const override {
    CraftOptions options = options_;
    std::int64_t copies = 0;
    for (const LayerPlan& layer : previous.layers) {
      copies += std::ssize(layer.slots) - previous.experts;
    }
    options.replication_factor =
        options_.replication_factor.value_or(static_cast<int>((copies + shape.gpus - 1) / shape.gpus));
    return craft_plan(options, load, shape);
  }
  std::optional<PlanExplanation> explain(const LoadWindow& load, const ClusterShape& shape) const override {
    CraftExplanation why;
    craft_plan(options_, load, shape, &why);
    return explain_craft(why, shape.gpus);
  }

 private:
  CraftOptions options_;
};

}  // namespace

PlacementPlan craft_plan(const CraftOptions& options, const LoadWindow& load, const ClusterShape& shape,
                         CraftExplanation* why) {
  check_craft(options, load, shape);
  const CraftLayout layout = layout_of(options, load.experts(), shape);
  const GainTable table = estimate_gains(load, layout, options.benefit);
  FactorCurve curve;
  if (!options.replication_factor) {
    curve = factor_curve(table, shape.gpus, options.objective);
  }
  const int factor = options.replication_factor ? *options.replication_factor : choose_factor(curve, options.auto_rule);
  const int budget = factor * shape.gpus;
  const CraftKnapsack knapsack(table, budget, options.objective);
  const std::vector<int> copies =
      knapsack.solve(options.budget == CraftBudget::kExact ? budget : knapsack.best_within(budget));

  const std::vector<int> layer_experts = mapped(copies, [&](int extra) { return load.experts() + extra; });
  const auto capacity = assign_capacities(layer_experts, layout, options.benefit.interleave);
  PlacementPlan out{.policy = "craft", .experts = load.experts(), .gpus = shape.gpus, .layers = {}};
  for (int l = 0; l < load.layers(); ++l) {
    out.layers.push_back(
        place_layer(load.layer(l), capacity[static_cast<std::size_t>(l)], layout, options.benefit.packing));
  }
  if (why != nullptr) {
    *why = {table, curve, factor, copies, {}};
    for (int l = 0; l < load.layers(); ++l) {
      const std::span<const LayerPlan> placed(&out.layers[static_cast<std::size_t>(l)], 1);
      why->balancedness.push_back(replay(load, l, placed, options.benefit).front());
    }
  }
  return out;
}

CraftOptions read_craft_options(ConfigReader& in) {
  CraftOptions out;
  out.replication_factor = read_factor(in);
  out.auto_rule = in.read<AutoFactor>(kCraftKeys["auto"]);
  out.objective = in.read<CraftObjective>(kCraftKeys["objective"]);
  out.benefit.aggregate = in.read<bool>(kCraftKeys["aggregate"]);
  out.benefit.floor_division = in.read<bool>(kCraftKeys["floor_division"]);
  out.benefit.clamp = in.read<bool>(kCraftKeys["clamp_gains"]);
  out.benefit.packing.allow_duplicates = in.read<bool>(kCraftKeys["allow_duplicates"]);
  out.benefit.packing.ties = in.read<GpuTies>(kCraftKeys["ties"]);
  out.benefit.interleave = in.read<Interleave>(kCraftKeys["interleave"]);
  out.budget = in.read<CraftBudget>(kCraftKeys["budget"]);
  out.mode = in.read<EplbMode>(kModeKey);
  out.groups = in.read(kGroupsKey, 1);
  out.place = in.place("");
  return out;
}

namespace {

std::unique_ptr<PlacementPolicy> make_craft(ConfigReader& options) {
  return std::make_unique<CraftPlacement>(read_craft_options(options));
}

}  // namespace

extern const PlacementPolicyEntry kCraft{
    {"craft", "Copies where a layer's balance gains most, within an exact budget: CRAFT, Sec. 4 and Algorithms 1 to 3.",
     "affinity, nodes unless mode hierarchical or interleave least_filled_node, layers changing later", kCraftKeys,
     make_craft},
    ExpertGroups::kOnRequest,
    CopyBudget::kOverLayers,
    {},
    false,
    Ceiling::kNone,
    {},
    true};

}  // namespace epsim
