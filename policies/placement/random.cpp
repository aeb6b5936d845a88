#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "policies/registry.h"
#include "sim/core/refuse.h"
#include "sim/core/rng.h"

namespace epsim {
namespace {

// Ignores the loads. Copies go to distinct experts as long as there are any that have none.
class RandomPlacement final : public PlacementPolicy {
 public:
  RandomPlacement(int redundant, Seed seed, InputPlace place)
      : redundant_(redundant), seed_(seed), place_(std::move(place)) {}

  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    const int physical = load.experts() + redundant_;
    refuse_if(shape.gpus <= 0 || physical % shape.gpus != 0, place_,
              fmt::format(
                  "{} experts with {} copies do not divide over {} GPUs; num_redundant_experts must make them divide.",
                  load.experts(), redundant_, shape.gpus));
    PlacementPlan out{.policy = "random", .experts = load.experts(), .gpus = shape.gpus, .layers = {}};
    for (int l = 0; l < load.layers(); ++l) {
      RandomStream random(seed_, "random placement", static_cast<std::uint64_t>(l));
      std::vector<int> experts(static_cast<std::size_t>(load.experts()));
      std::iota(experts.begin(), experts.end(), 0);
      std::vector<int> slots = experts;
      while (static_cast<int>(slots.size()) < physical) {
        random.shuffle(experts);
        const auto missing = static_cast<std::ptrdiff_t>(physical) - static_cast<std::ptrdiff_t>(slots.size());
        slots.insert(slots.end(), experts.begin(), experts.begin() + std::min(missing, std::ssize(experts)));
      }
      random.shuffle(slots);
      out.layers.push_back(uniform_layer(std::move(slots), shape.gpus));
    }
    return out;
  }

 private:
  int redundant_;
  Seed seed_;
  InputPlace place_;
};

constexpr KeyTable kRandomKeys({
    {"num_redundant_experts", key::whole(), key::is(0), "Copies per layer, over all GPUs."},
    {"seed", key::whole(), key::is(0), "Seed of the policy's own draws."},
});

std::unique_ptr<PlacementPolicy> make_random(ConfigReader& options) {
  const auto seed = static_cast<std::uint64_t>(options.read<std::int64_t>(kRandomKeys["seed"]));
  return std::make_unique<RandomPlacement>(options.read<int>(kRandomKeys["num_redundant_experts"]), Seed{seed},
                                           options.place(""));
}

}  // namespace

extern const PlacementPolicyEntry kRandom{
    {"random", "Experts, and copies of randomly drawn ones, in random order: the baseline that knows nothing.",
     "loads, nodes", kRandomKeys, make_random},
    ExpertGroups::kUnknown,
    CopyBudget::kPerLayer};

}  // namespace epsim
