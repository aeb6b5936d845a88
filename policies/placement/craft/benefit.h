// CRAFT step 1: what copies are worth, layer by layer (Algorithm 1 of the paper, Appendix A.0.1).
//   Models : the placement that each number of copies would get, replayed on every batch of the load window.
//   Readings: the base line is one per layer; loads are divided, not floor-divided, over copies; two copies on one GPU
//   count twice; a batch without load counts as balanced; capacities of a trial placement are spread from an empty
//   history, so the final placement, whose capacities depend on other layers, may differ a little.
#pragma once

#include <span>
#include <vector>

#include "policies/placement/craft/layout.h"
#include "sim/domain/load_window.h"
#include "sim/domain/placement_plan.h"

namespace epsim {

struct BenefitOptions {
  bool aggregate = false;       // replay only the sum of the window instead of its batches
  bool floor_division = false;  // literal pseudo-code: whole tokens per copy, the remainder is lost
  bool clamp = false;           // count a loss of balance as no gain, instead of with its sign
  CraftPacking packing;
  Interleave interleave = Interleave::kFloor;
};

struct GainTable {
  std::vector<int> counts;                // extra copies of a layer, ascending
  std::vector<double> base;               // [layer] balancedness without copies
  std::vector<std::vector<double>> gain;  // [count][layer] balancedness gained over base; may be negative
};
GainTable estimate_gains(const LoadWindow& load, const CraftLayout& layout, const BenefitOptions& options);

// Mean over the window's batches (over its sum, with `aggregate` or where it has no batches) of mean / max GPU load,
// for each of several placements of layer `layer`.
std::vector<double> replay(const LoadWindow& load, int layer, std::span<const LayerPlan> plans,
                           const BenefitOptions& options);

}  // namespace epsim
