// Switching from one plan to another: which copies travel between which GPUs, and in which order.
//   Models : an arriving copy is staged on its GPU; a layer switches to its new slots when its last copy is there, so
//            until then every GPU still holds what it held before, and senders hold what they send. Batches follow one
//            another; in a batch no GPU sends, nor receives, more than a given number of copies.
//   Source : batches with a limit per rank as in omni-infer's placement planner; staging and switching layer by layer
//            as in vLLM's rearrangement.
//   Ignores: loading from host memory; copies inside a GPU take part in no batch's limit.
#pragma once

#include <span>
#include <vector>

#include "sim/core/units.h"
#include "sim/domain/cluster_spec.h"
#include "sim/domain/placement_plan.h"

namespace epsim {

struct CopyMove {
  int layer = 0, expert = 0;
  int from_gpu = 0, to_gpu = 0;  // equal for a further copy beside one that the GPU held or that an earlier move brings
  int to_slot = 0;               // of the new plan's layer
};

struct MigrationPlan {
  std::vector<std::vector<CopyMove>> batches;
  std::vector<int> switches_after;  // [layer] the batch after which it switches; -1 when none of its copies arrives
  int staged_on_fullest_gpu =
      0;  // copies that wait for their layer to switch, on the GPU and after the batch with most
};

// A copy comes from its own GPU where that held the expert or has just got it (an expert travels to a GPU once); else from a GPU of its node that did; else from any that
// did; of several from the one that has sent least, the lowest when equal. Moves take the earliest batch with room at
// both ends, in order of layer, GPU and slot; copies inside a GPU take the last batch of their layer so far. Both plans must be for the same model and GPUs; `limit_per_gpu` >= 1.
MigrationPlan plan_migration(const PlacementPlan& next, const PlacementPlan& previous, const ClusterShape& shape,
                             int limit_per_gpu);

// What the moves put on each GPU's port inside its node and on its NIC, in each direction.
struct MigrationBytes {
  std::vector<Bytes> intra_out, intra_in, inter_out, inter_in;  // [GPU]
};
MigrationBytes migration_bytes(std::span<const CopyMove> moves, Bytes expert_bytes, const ClusterShape& shape);

}  // namespace epsim
