// The extension point for replica choice: which copy of an expert serves a token.
#pragma once

#include <span>
#include <vector>

#include "sim/domain/cluster_spec.h"
#include "sim/domain/load_window.h"
#include "sim/domain/placement.h"
#include "sim/domain/placement_plan.h"

namespace epsim {

// One layer of a plan, as a choice sees it.
struct ChoiceInput {
  const LayerPlan& layer;
  int index = 0;                  // of the layer
  std::span<const double> loads;  // [expert] of the window that the plan was made from
  ClusterShape shape;
};

// Decides what share of a source's tokens each copy of an expert serves. Where an engine draws lots or hashes, the
// shares are the expectation. Equal inputs give equal shares; const and safe to call from several threads.
class ReplicaChoice {
 public:
  virtual ~ReplicaChoice() = default;
  virtual SourceShares shares(const ChoiceInput& in) const = 0;
};

// shares() of every layer, as Placement::build takes them.
std::vector<SourceShares> choose_replicas(const ReplicaChoice& choice, const PlacementPlan& plan,
                                          const LoadWindow& window, const ClusterShape& shape);

}  // namespace epsim
