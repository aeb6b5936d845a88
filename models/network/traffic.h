// Who sends how many rows to whom: one MoE layer's dispatch, in expectation over the routing (physics.md section 2).
//
//   Models : rows per GPU port and per NIC for even replica choice or shares by source (SourceShares), with no, per-GPU
//            or per-node de-duplication.
//            A DP rank's tokens lie evenly over its tensor-parallel GPUs. A token uses expert e with chance pi_e; it
//            reaches GPU g with 1 - prod over g's copies of (1 - pi_e * share), so experts count as independent:
//            within 1 % of drawing without replacement for top-8 of 256.
//   Ignores: routing metadata (ids and weights, about 0.5 % of a bf16 row of 7168).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "models/network/miss_chance.h"
#include "models/network/node_shares.h"
#include "models/network/slot_columns.h"
#include "models/network/varying_shares.h"
#include "sim/domain/parallelism.h"
#include "sim/domain/placement.h"
#include "sim/domain/step_loads.h"

namespace epsim {

// What is sent once: every (token, expert) pair, every (token, GPU) pair, or every (token, node) pair with a fan-out
// inside the node from the GPU of the sender's local index (rail-aligned). kEverywhere is what an all-gather does:
// every token once to every node, and from there to every GPU.
enum class Dedup { kNone, kGpu, kNode, kEverywhere };

// Where tokens of one mix lie, and what each of them sends: tokens[a] x reach[b] rows go from GPU a to GPU b.
struct TokenSpread {
  std::vector<double> tokens, reach;  // [GPU]
};

// Rows of one layer. Combine carries the same rows the other way. Sized by TrafficModel, reused from layer to layer.
struct LayerTraffic {
  std::vector<double> executed;             // [GPU] routed assignments computed there (grouped-GEMM rows)
  std::vector<double> touched;              // [GPU] expected number of physical experts with at least one row
  std::vector<double> intra_out, intra_in;  // [GPU] rows over its port inside the node
  std::vector<double> inter_out, inter_in;  // [GPU] rows through its NIC
  std::vector<double> pairs = {};           // [from][to] rows, as TrafficMatrix; empty unless the model counts them
  // One for each source of the loads, whose sum makes the rows above; empty unless the model tells them.
  std::vector<TokenSpread> spread = {};
};

class TrafficModel {
 public:
  // What a network needs to know beside the sums (Network::needs()).
  enum class Detail {
    kSums,
    kPairs,   // LayerTraffic::pairs
    kSpread,  // LayerTraffic::spread; for copies that share alike, and rows sent once per GPU or per expert
  };
  TrafficModel(const Placement& placement, const Parallelism& parallelism, const ClusterShape& shape, Dedup dedup,
               Detail detail = Detail::kSums);

  // `tokens` per DP rank, as the loads were drawn for.
  void layer(int l, const StepLoads& loads, std::span<const std::int64_t> tokens, LayerTraffic& out);

 private:
  void execute(int l, const StepLoads& loads, std::span<const std::int64_t> tokens, LayerTraffic& out);
  void spread_tokens(std::span<const std::int64_t> tokens, int source, int sources);
  void reach(int l, std::span<const float> pi);
  void hit_nodes(const NodeShares& shares, std::span<const float> pi, double weight, std::vector<double>& hit) const;
  void send_by_source(int l, std::span<const float> pi, LayerTraffic& out);
  void common_part(int l, std::span<const float> pi, double weight);
  void gain_by_cell(const VaryingShares& varying, std::span<const float> pi, double weight);
  void send_gain_per_gpu(const VaryingShares& varying, const VaryingShares::Source& source, LayerTraffic& out);
  void send_gain_per_node(int l, const VaryingShares::Source& source, LayerTraffic& out);
  void arrive_by_cell(const VaryingShares& varying, std::span<const float> pi, LayerTraffic& out);
  void execute_slots(const LayerPlacement& at, LayerTraffic& out) const;
  void send(LayerTraffic& out);
  void send_everywhere(std::span<const std::int64_t> tokens, LayerTraffic& out);
  void send_per_gpu(LayerTraffic& out);
  void send_per_node(LayerTraffic& out);

  const Placement& placement_;
  Parallelism parallelism_;
  ClusterShape shape_;
  Dedup dedup_;
  Detail detail_;
  std::vector<std::size_t> rank_of_, node_of_;  // [GPU]
  std::vector<SlotColumns> columns_;            // [layer]
  SlotValues slot_values_;
  std::vector<double> expert_rows_;               // [expert] assignments of all sources
  std::vector<double> gpu_tokens_, node_tokens_;  // of the source at hand
  std::vector<std::int64_t> spread_;              // what gpu_tokens_ was made from, and for which source (-1: all)
  int spread_source_ = -2;
  std::vector<double> reach_, node_reach_;  // rows a token of that source sends to a GPU; to a node's GPUs in all
  std::vector<double> node_hit_;            // chance that a token needs a node at all
  std::vector<double> landed_;              // [index in the node] tokens that fan out from there
  // [layer] where one row goes to a node: what all sources have alike, and all shares of each source.
  std::vector<NodeShares> node_shares_;
  std::vector<SourceNodeShares> source_nodes_;
  // For layers whose copies serve some sources more than others.
  std::vector<VaryingShares> varying_;   // [layer]
  std::vector<double> slot_rows_;        // [slot]
  std::vector<MissChance> common_miss_;  // [GPU] of the shares that all sources have alike
  std::vector<double> list_hit_;         // [list of source_nodes_] chance that a token needs that node
  struct CellTraffic {
    double gain = 0;           // rows that a token of the cell's sources sends to its GPU on top of the common part
    double near = 0, far = 0;  // tokens of its sources in the GPU's node, and in others
  };
  std::vector<CellTraffic> cell_;  // [cell]
};

}  // namespace epsim
