#include "policies/replica_choice.h"

namespace epsim {

std::vector<SourceShares> choose_replicas(const ReplicaChoice& choice, const PlacementPlan& plan,
                                          const LoadWindow& window, const ClusterShape& shape) {
  std::vector<SourceShares> out;
  for (int l = 0; l < static_cast<int>(plan.layers.size()); ++l) {
    out.push_back(choice.shares({plan.layers[static_cast<std::size_t>(l)], l, window.layer(l), shape}));
  }
  return out;
}

}  // namespace epsim
