// The traffic matrix of each MoE layer, in expectation over the routing (physics.md section 2).
//
//   Models : rows for even replica choice or shares by source (SourceShares), with no, per-GPU or per-node
//            de-duplication. A DP rank's tokens lie evenly over its tensor-parallel GPUs. A token uses expert e with
//            chance pi_e; it reaches GPU g with 1 - prod over g's copies of (1 - pi_e * share), so experts count as
//            independent: within 1 % of drawing without replacement for top-8 of 256. With tokens to tell which experts
//            are used together, the product is raised to a power (JointUse); where a step's own tokens are recorded,
//            they are counted (RecordedRows).
//   Ignores: routing metadata (ids and weights, about 0.5 % of a bf16 row of 7168).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/network/joint_use.h"
#include "models/network/node_shares.h"
#include "models/network/recorded_rows.h"
#include "models/network/soa_slots.h"
#include "models/network/traffic_matrix.h"
#include "sim/domain/parallelism.h"
#include "sim/domain/placement.h"
#include "sim/domain/step_loads.h"

namespace epsim {

// What is sent once: every (token, expert) pair, every (token, GPU) pair, or every (token, node) pair with a fan-out
// inside the node from the GPU of the sender's local index (rail-aligned). kEven is what a collective of all GPUs does:
// every token once to every node, and from there to every GPU, of which each passes on an even share, whoever's tokens
// they are (rings; of ranks of unequal length a group of NCCL broadcasts). kPadded: the same of a buffer in which each
// DP rank has as many rows as the longest. kByTpRank: the GPUs of one index in their DP ranks form a ring, and each ring
// moves all tokens.
enum class Dedup { kNone, kGpu, kNode, kEven, kPadded, kByTpRank };

class TrafficModel {
 public:
  // `together` is read here and kept no reference to; where it knows nothing, experts count as independent.
  TrafficModel(const Placement& placement, const Parallelism& parallelism, const ClusterShape& shape, Dedup dedup,
               const UsedTogether& together = {});

  // `tokens` per DP rank, as the loads were drawn for. A source is the GPUs whose tokens have one mix of experts and one
  // choice of copies. Reuses what `out` holds.
  void layer(int l, const StepLoads& loads, std::span<const std::int64_t> tokens, TrafficMatrix& out);
  JointPowers joint_powers(int l) const;

 private:
  void reach(int l, const StepLoads& loads, int source, TrafficMatrix::Mix& mix);
  void reach_nodes(int l, std::span<const float> pi, double weight);
  void reach_recorded(int l, const StepLoads& loads, TrafficMatrix::Mix& mix);
  bool to_all() const { return dedup_ >= Dedup::kEven; }
  void fill_gpu_tokens(std::span<const std::int64_t> tokens, bool on_wire);
  void send_everywhere(TrafficMatrix& out) const;
  void send_in_rings(std::span<const std::int64_t> tokens, TrafficMatrix& out) const;
  void execute(int l, const StepLoads& loads, std::span<const std::int64_t> tokens, TrafficMatrix& out);
  void add_slot_rows(int l, const TrafficMatrix::Mix& mix);

  const Placement& placement_;
  Parallelism parallelism_;
  ClusterShape shape_;
  Dedup dedup_;
  std::shared_ptr<const SourceLanes> common_;              // all sources alike
  std::vector<std::shared_ptr<const SourceLanes>> lanes_;  // [layer]
  std::vector<SoaSlots> slots_;                            // [layer]
  std::vector<NodeShares> nodes_;                          // [layer] where one row goes to a node
  std::vector<double> gpu_tokens_;                         // [GPU] where they lie, or are sent from
  std::vector<JointUse> joint_;                            // [layer], or none: experts are independent
  RecordedRows recorded_;                                  // of as many layers
  SlotValues slot_values_;                                 // of the mix at hand
  std::vector<double> list_hit_;                           // [list of nodes_] chance that a token needs that node
  std::vector<double> expert_rows_;                        // [expert] assignments of all sources
  // Where copies serve some sources more than others: [slot] assignments; [lane] tokens of the mix at hand that see it.
  std::vector<double> slot_rows_, lane_tokens_;
};

}  // namespace epsim
