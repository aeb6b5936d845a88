#include <fmt/format.h>

#include <memory>

#include "policies/placement_policy.h"
#include "policies/plan_tools.h"
#include "sim/core/config.h"

namespace epsim {
namespace {

// Slot s holds expert s, whatever the loads; behind the last expert they start over, as in an engine that is told to
// keep copies before it knows any load (SGLang, expert_location.py, init_trivial).
class ContiguousPlacement final : public PlacementPolicy {
 public:
  ContiguousPlacement(int copies, InputPlace place) : copies_(copies), place_(std::move(place)) {}

  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    const int slots = load.experts() + copies_;
    if (shape.gpus <= 0 || slots % shape.gpus != 0) {
      throw InputError(place_,
                       fmt::format("{} experts with {} copies do not divide over {} GPUs; num_redundant_experts must "
                                   "make up for it.",
                                   load.experts(), copies_, shape.gpus));
    }
    std::vector<int> in_order(static_cast<std::size_t>(slots));
    for (int s = 0; s < slots; ++s) {
      in_order[static_cast<std::size_t>(s)] = s % load.experts();
    }
    PlacementPlan out{.policy = "contiguous", .experts = load.experts(), .gpus = shape.gpus, .layers = {}};
    out.layers.assign(static_cast<std::size_t>(load.layers()), uniform_layer(in_order, shape.gpus));
    return out;
  }

 private:
  int copies_;
  InputPlace place_;
};

}  // namespace

std::unique_ptr<PlacementPolicy> make_contiguous_placement(ConfigReader& options) {
  const int copies = options.optional<int>("num_redundant_experts", 0, Bound::kNotNegative);
  return std::make_unique<ContiguousPlacement>(copies, options.place(""));
}

}  // namespace epsim
