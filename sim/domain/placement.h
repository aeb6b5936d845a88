// A plan that was checked and can be run: every expert has a copy, every slot is on a GPU that can hold it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/units.h"
#include "sim/domain/cluster_spec.h"
#include "sim/domain/load_window.h"
#include "sim/domain/placement_plan.h"

namespace epsim {

// How the copies of an expert share the tokens that need it, where that depends on where a token comes from. A source
// is `gpus_per_source` consecutive GPUs: every GPU for itself, a node, or all together. For every source the shares of
// an expert's copies sum to 1.
struct SourceShares {
  int gpus_per_source = 0;
  std::vector<float> share;  // [source][slot]

  bool empty() const { return share.empty(); }
};

// One layer, ready for the hot loops.
struct LayerPlacement {
  std::vector<std::int32_t> expert;      // [slot] logical expert
  std::vector<std::int32_t> first_slot;  // [GPU + 1]
  std::vector<std::int32_t> copies;      // [logical expert] number of copies
  std::vector<float> share;              // [slot] share of its expert's load: 1 / copies with even replica choice
  SourceShares by_source;  // empty when every source has the shares above, else they are the sources' mean
};

class Placement {
 public:
  // The only door from a plan to a run. Throws InputError when an expert has no copy, an id is out of range or the
  // shape differs, and DoesNotFit, naming the GPU, when its experts need more than `expert_memory`. `shares`, one entry
  // per layer, says how copies share their tokens; without it they share evenly.
  // `moe_tp`: plan and shares are for EP ranks of so many GPUs of `shape`, each of which holds `expert_bytes` of every
  // expert of its rank and computes all of the rank's rows.
  static Placement build(const PlacementPlan& plan, const ClusterShape& shape, Bytes expert_bytes, Bytes expert_memory,
                         std::vector<SourceShares> shares = {}, int moe_tp = 1);

  int experts() const { return experts_; }
  int gpus() const { return gpus_; }
  int layers() const { return static_cast<int>(layers_.size()); }
  const LayerPlacement& layer(int l) const { return layers_[static_cast<std::size_t>(l)]; }

  // The placement of the last layer; without layers as it is.
  Placement last_layer_alone() const;

  // Physical experts resident on a GPU, all layers.
  std::int64_t resident(int gpu) const { return resident_[static_cast<std::size_t>(gpu)]; }
  std::int64_t max_resident() const;
  // Load of every GPU in one layer, for logical loads [expert] that come from all GPUs alike.
  std::vector<double> gpu_loads(int l, std::span<const double> expert_loads) const;

 private:
  int experts_ = 0, gpus_ = 0;
  std::vector<LayerPlacement> layers_;
  std::vector<std::int64_t> resident_;
};

// balancedness of each layer when `load` is served by `placement`.
std::vector<double> balancedness_by_layer(const Placement& placement, const LoadWindow& load);

}  // namespace epsim
