#include "policies/placement/craft/craft.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <utility>

#include "policies/placement/capacity_packing.h"
#include "policies/placement/craft/assignment.h"

namespace epsim {
namespace {

// A number, or "auto".
std::optional<int> read_factor(ConfigReader& in) {
  const std::string text = in.optional<std::string>("replication_factor", "auto");
  if (text == "auto") {
    return std::nullopt;
  }
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  in.check(error == std::errc() && end == text.data() + text.size() && value >= 0, "replication_factor",
           fmt::format("'{}' is neither `auto` nor a whole number of copies per GPU, 0 or more.", text));
  return value;
}

void check_craft(const CraftOptions& options, const LoadWindow& load, const ClusterShape& shape) {
  if (shape.gpus <= 0) {
    throw InputError(options.place, "there must be at least one GPU.");
  }
  if (load.experts() < shape.gpus) {
    throw InputError(options.place, fmt::format("{} experts on {} GPUs leave GPUs without an expert; the GPUs must not "
                                                "outnumber the experts.",
                                                load.experts(), shape.gpus));
  }
  if (options.replication_factor.value_or(0) > load.layers()) {
    throw InputError(
        options.place,
        fmt::format("replication_factor {} is more than one copy per GPU and layer; at most {} is allowed.",
                    *options.replication_factor, load.layers()));
  }
}

class CraftPlacement final : public PlacementPolicy {
 public:
  explicit CraftPlacement(CraftOptions options) : options_(std::move(options)) {}
  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    return craft_plan(options_, load, shape);
  }

 private:
  CraftOptions options_;
};

}  // namespace

PlacementPlan craft_plan(const CraftOptions& options, const LoadWindow& load, const ClusterShape& shape,
                         CraftExplanation* why) {
  check_craft(options, load, shape);
  const GainTable table = estimate_gains(load, shape.gpus, options.benefit);
  FactorCurve curve;
  if (!options.replication_factor) {
    curve = factor_curve(table, shape.gpus, options.objective);
  }
  const int factor = options.replication_factor ? *options.replication_factor : choose_factor(curve, options.auto_rule);
  const int budget = factor * shape.gpus;
  const std::vector<int> copies = CraftKnapsack(table, budget, options.objective).solve(budget);

  std::vector<int> layer_experts;
  for (const int extra : copies) {
    layer_experts.push_back(load.experts() + extra);
  }
  const auto capacity = assign_capacities(layer_experts, shape.gpus, options.benefit.interleave);
  PlacementPlan out{.policy = "craft", .experts = load.experts(), .gpus = shape.gpus, .layers = {}};
  for (int l = 0; l < load.layers(); ++l) {
    out.layers.push_back(
        place_by_capacity(load.layer(l), capacity[static_cast<std::size_t>(l)], options.benefit.allow_duplicates));
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
  out.auto_rule =
      in.choice("auto", {"knee", "max_ratio"}, "knee") == "knee" ? AutoFactor::kKnee : AutoFactor::kMaxRatio;
  out.objective = in.choice("objective", {"gain", "gain_times_r"}, "gain") == "gain" ? CraftObjective::kGain
                                                                                     : CraftObjective::kGainTimesR;
  out.benefit.aggregate = in.optional("aggregate", false);
  out.benefit.floor_division = in.optional("floor_division", false);
  out.benefit.allow_duplicates = in.optional("allow_duplicates", false);
  out.benefit.interleave =
      in.choice("interleave", {"floor", "endpoints"}, "floor") == "floor" ? Interleave::kFloor : Interleave::kEndpoints;
  out.place = in.place("");
  return out;
}

std::unique_ptr<PlacementPolicy> make_craft_placement(ConfigReader& options) {
  return std::make_unique<CraftPlacement>(read_craft_options(options));
}

}  // namespace epsim
