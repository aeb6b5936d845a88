#include <memory>
#include <numeric>

#include "policies/placement_policy.h"
#include "policies/plan_tools.h"
#include "sim/core/config.h"

namespace epsim {
namespace {

// Expert e on GPU e / (E / GPUs), whatever the loads.
class ContiguousPlacement final : public PlacementPolicy {
 public:
  explicit ContiguousPlacement(InputPlace place) : place_(std::move(place)) {}

  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    even_share(load.experts(), shape, place_);
    std::vector<int> in_order(static_cast<std::size_t>(load.experts()));
    std::iota(in_order.begin(), in_order.end(), 0);
    PlacementPlan out{.policy = "contiguous", .experts = load.experts(), .gpus = shape.gpus, .layers = {}};
    out.layers.assign(static_cast<std::size_t>(load.layers()), uniform_layer(in_order, shape.gpus));
    return out;
  }

 private:
  InputPlace place_;
};

}  // namespace

std::unique_ptr<PlacementPolicy> make_contiguous_placement(ConfigReader& options) {
  return std::make_unique<ContiguousPlacement>(options.place(""));
}

}  // namespace epsim
