#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "policies/placement/packing.h"
#include "policies/plan_tools.h"
#include "policies/registry.h"
#include "sim/core/sorted_ids.h"

namespace epsim {
namespace {

// Source  : Libra, Sec. 5.2, and the authors' public baseline: hot experts of a profile, one on each GPU, in every
//           layer.
// Readings: experts live in order on their home GPUs; GPUs are ranked by their load at home, which copies do not
//           change; the next hottest expert goes to the coldest GPU that has room this round and does not hold it,
//           and is passed over when there is none.
class HotToCold {
 public:
  HotToCold(std::span<const double> loads, int gpus)
      : per_gpu_(static_cast<int>(loads.size()) / gpus), held_(static_cast<std::size_t>(gpus)) {
    std::vector<double> home(held_.size(), 0.0);
    for (std::size_t e = 0; e < loads.size(); ++e) {
      const std::size_t g = e / static_cast<std::size_t>(per_gpu_);
      held_[g].push_back(static_cast<int>(e));
      home[g] += loads[e];
    }
    hottest_ = order_by_load<double>(loads, TieOrder::kStable);
    coldest_ = sorted_ids(held_.size(), [&](std::size_t a, std::size_t b) { return home[a] < home[b]; });
  }

  // Every GPU gets one more expert.
  void add_round() {
    std::vector<std::size_t> open = coldest_;
    for (; next_ < hottest_.size() && !open.empty(); ++next_) {
      const int expert = hottest_[next_];
      const auto gpu = std::find_if(open.begin(), open.end(), [&](std::size_t g) { return !holds(g, expert); });
      if (gpu != open.end()) {
        held_[*gpu].push_back(expert);
        open.erase(gpu);
      }
    }
    for (const std::size_t g : open) {  // all experts were looked at: memory stays equal all the same
      held_[g].push_back(hottest_.front());
    }
  }

  LayerPlan plan() const { return uniform_layer(layer_of_gpus(held_).slots, static_cast<int>(held_.size())); }

 private:
  bool holds(std::size_t gpu, int expert) const {
    return std::find(held_[gpu].begin(), held_[gpu].end(), expert) != held_[gpu].end();
  }

  int per_gpu_;
  std::vector<std::vector<int>> held_;  // [GPU] experts
  std::vector<int> hottest_;            // experts by descending load
  std::vector<std::size_t> coldest_;    // GPUs by ascending load at home
  std::size_t next_ = 0;
};

class StaticHotPlacement final : public PlacementPolicy {
 public:
  StaticHotPlacement(int copies_per_gpu, InputPlace place)
      : copies_per_gpu_(copies_per_gpu), place_(std::move(place)) {}

  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    even_share(load.experts(), shape, place_);
    PlacementPlan out{.policy = "static_hot", .experts = load.experts(), .gpus = shape.gpus, .layers = {}};
    for (int l = 0; l < load.layers(); ++l) {
      HotToCold layer(load.layer(l), shape.gpus);
      for (int round = 0; round < copies_per_gpu_; ++round) {
        layer.add_round();
      }
      out.layers.push_back(layer.plan());
    }
    return out;
  }

 private:
  int copies_per_gpu_;
  InputPlace place_;
};

constexpr KeyTable kStaticHotKeys({
    {"copies_per_gpu", key::whole(), key::is(1), "Copies per GPU and layer."},
});

std::unique_ptr<PlacementPolicy> make_static_hot(ConfigReader& options) {
  return std::make_unique<StaticHotPlacement>(options.read<int>(kStaticHotKeys["copies_per_gpu"]), options.place(""));
}

}  // namespace

extern const PlacementPolicyEntry kStaticHot{
    {"static_hot",
     "Experts in order, and the hottest ones once more on the coldest GPUs: EPLB as Libra's Sec. 5.2 used it.",
     "batches (loads are summed), affinity, nodes, what copies do to a GPU's load", kStaticHotKeys, make_static_hot}};

}  // namespace epsim
