#include <fmt/format.h>

#include <memory>

#include "policies/placement/renamed.h"
#include "policies/plan_tools.h"
#include "policies/registry.h"
#include "sim/core/refuse.h"

namespace epsim {
namespace {

// Slot s holds expert s, whatever the loads; behind the last expert they start over, as in an engine that is told to
// keep copies before it knows any load (SGLang, expert_location.py, init_trivial).
class ContiguousPlacement final : public PlacementPolicy {
 public:
  ContiguousPlacement(int copies, InputPlace place) : copies_(copies), place_(std::move(place)) {}

  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    const int slots = load.experts() + copies_;
    refuse_if(
        shape.gpus <= 0 || slots % shape.gpus != 0, place_,
        fmt::format("{} experts with {} copies do not divide over {} GPUs; num_redundant_experts must make up for it.",
                    load.experts(), copies_, shape.gpus));
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

constexpr KeyTable kContiguousKeys({
    {"num_redundant_experts", key::whole(), key::is(0), "Copies per layer, over all GPUs."},
});

std::unique_ptr<PlacementPolicy> make_contiguous(ConfigReader& options) {
  return std::make_unique<ContiguousPlacement>(options.read<int>(kContiguousKeys["num_redundant_experts"]),
                                               options.place(""));
}

std::unique_ptr<PlacementPolicy> make_vanilla(ConfigReader& options) {
  return std::make_unique<RenamedPlacement>("grace_vanilla", make_contiguous(options));
}

}  // namespace

// As well Vanilla of GRACE's component study ("average grouping").
extern const PlacementPolicyEntry kContiguous{
    {"contiguous", "Experts in order, E / GPUs on each, no copies: what an engine does without a load balancer.",
     "loads, nodes", kContiguousKeys, make_contiguous}};
extern const PlacementPolicyEntry kGraceVanilla{
    {"grace_vanilla", "Vanilla of GRACE-MoE's component study (Sec. 5.3): experts in order, equally many on each GPU.",
     "loads, nodes", kContiguousKeys, make_vanilla}};
extern const PlacementPolicyEntry kPerfect{
    {"perfect", "Every expert takes the same load in every step, no copies: what perfect balance could give.",
     "that no engine can divide an expert", kContiguousKeys, make_contiguous},
    ExpertGroups::kUnknown,
    CopyBudget::kFixed,
    {},
    false,
    Ceiling::kPerfectBalance};

}  // namespace epsim
