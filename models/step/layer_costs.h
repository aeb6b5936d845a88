// What each piece of a step takes, before anyone says how the pieces follow each other.
//
//   Models : attention, gate, shared experts, dense FFN and head of every DP rank, with their tensor-parallel
//            all-gather and reduce-scatter (between parts a GPU holds its share of the rank's tokens; attention and
//            split FFNs work on all of them; a dense FFN or head over all GPUs works on all ranks' tokens between two
//            collectives over all of them); experts of every GPU, of whatever share of their columns it has; the
//            exchange of tokens, and of counts before it. GPUs and links may run at a share of their speed
//            (StepConditions): a tensor-parallel group computes at the pace of its slowest GPU, its collectives run at
//            that of its slowest port, those over all GPUs at that of the slowest port or (over nodes) NIC of all, an
//            exchange at that of its busiest slowed resource.
//   Ignores: what waits for what (StepModel, and the task graphs of sim/step), the CPU; that ranks meet where a dense FFN
//            or the head is over all GPUs.
//   Source : ComputeModel and Network.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/compute/roofline.h"
#include "models/network/network.h"
#include "models/network/traffic.h"
#include "models/step/expert_capacity.h"
#include "sim/core/choice.h"
#include "sim/domain/moe_spec.h"
#include "sim/domain/parallelism.h"
#include "sim/domain/step.h"

namespace epsim {

// How expert parallelism exchanges tokens.
// Whose kernels compute products: the engine's own, or a backend's, by the name that ComputeProfile has for it.
enum class KernelBackend { kAuto, kDeepGemm, kTrtllm };
template <>
inline constexpr auto kNames<KernelBackend> = choice<KernelBackend>({{"auto", KernelBackend::kAuto},
                                                                     {"deepgemm", KernelBackend::kDeepGemm},
                                                                     {"trtllm", KernelBackend::kTrtllm}});

struct DispatchOptions {
  Dedup dedup = Dedup::kGpu;    // CRAFT's peer-to-peer dispatch: one row per (token, GPU)
  double dispatch_bytes = 2;    // bytes per element out (bf16; fp8 with its scales: 1 + 4 / 128)
  double combine_bytes = 2;     // and back
  bool exchange_counts = true;  // sizes are not known before the gate: one more latency ahead of the dispatch
  KernelBackend expert_kernels = KernelBackend::kAuto, dense_kernels = KernelBackend::kAuto;
  ExpertCapacity capacity = {};  // of the buffers that rows travel in
  // Experts that a token's other choices may be of, by its first; 0: any. The loads are already rerouted.
  int collaborators = 0;
  NetworkOptions network = {};  // who moves the tokens, over which fabric, and how that is priced
  // Steps without prompts exchange tokens this way instead, over the same fabric (DeepEP's auto mode); null: the same.
  std::shared_ptr<const DispatchOptions> decode_steps = nullptr;
  // Not with that one: steps in which padding every rank to the longest would move as many rows as adding up all tokens,
  // which takes two passes.
  std::shared_ptr<const DispatchOptions> uneven_steps = nullptr;

  const DispatchOptions* other() const { return decode_steps ? decode_steps.get() : uneven_steps.get(); }

  // Whether fair_share can price the rows: in every way they go once per GPU or per expert.
  bool fair_share_prices() const {
    const bool prices = dedup == Dedup::kGpu || dedup == Dedup::kNone;
    return prices && (other() == nullptr || other()->fair_share_prices());
  }
};

// A piece of work in whole picoseconds, the only unit in which pieces add up: however they are put together, equal
// pieces give equal sums.
struct TickCost {
  Ticks time{};
  Origin origin = Origin::kDeclared;
};
inline TickCost tick_cost(const Price& price) { return {to_ticks(price.time), price.origin}; }

// One layer of one DP rank; the head once per step.
struct RankCost {
  std::int64_t tokens = 0;
  TickCost attention, gate, shared, dense, head;
  TickCost prepare;  // the part of `attention` that comes before the scores
  // What `shared` keeps of the GPU however it runs: its weights are read, its products computed.
  Ticks shared_least{};
};

// One MoE layer.
struct MoeLayerCost {
  TickCost counts, dispatch, combine;
  Seconds dispatch_straggler{}, combine_straggler{};      // what the GPUs wait on average for the busiest link
  int dispatch_bottleneck = -1, combine_bottleneck = -1;  // that link, in network().links(); -1 when nothing moved
  PriceRow experts;                                       // [GPU]; not yet rounded, as only the slowest may be needed
};

class LayerCosts {
 public:
  LayerCosts(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
             const DispatchOptions& dispatch, const ComputeProfile& compute, const NetworkProfile& network);

  void set_conditions(const StepConditions& conditions);
  const StepConditions& conditions() const { return conditions_; }
  bool slowed_links() const { return !conditions_.link_speed.empty() || !conditions_.nic_speed.empty(); }
  TrafficMatrix as_slowed(const TrafficMatrix& traffic, Direction direction) const {
    return network().slowed(traffic, direction, conditions_.link_speed, conditions_.nic_speed);
  }

  void ranks(std::span<const RankBatch> batches, std::vector<RankCost>& out) const;
  // Adds what each link carried to `link_bytes`, in the order of network().links().
  void layer(const TrafficMatrix& traffic, std::vector<double>& link_bytes, MoeLayerCost& out) const;
  // What a multi-token-prediction layer begins with, of the slowest rank.
  Price mtp_input(std::span<const RankBatch> batches) const;
  // A collective over all GPUs, at the pace of the slowest of their links.
  Price over_all(CollectiveKind kind, Bytes bytes) const;
  // `rows` assignments on `touched` physical experts of one GPU. Where experts work on all tokens, a layer's second stage
  // leaves out what reading and adding up the tokens takes (`tokens` false).
  Price experts(int gpu, double rows, double touched, bool tokens = true) const;
  // The way that the tokens [DP rank] of a step travel: network(), dispatch() and the rows follow.
  void choose_way(std::span<const std::int64_t> tokens, std::span<const std::int64_t> decodes);
  void take_way(std::size_t way) { now_ = way; }
  // The ways that tokens travel: one, or two where the dispatch has an other() for some steps.
  std::size_t ways() const { return ways_.size(); }
  std::size_t way() const { return now_; }
  const Network& network() const { return *ways_[now_].network; }
  const MoeSpec& model() const { return model_; }  // its routed experts as wide as one GPU computes them
  const Parallelism& parallelism() const { return parallelism_; }
  const DispatchOptions& dispatch() const { return ways_[now_].options; }
  // What a row puts on the links that it passes.
  Bytes dispatch_row() const { return row(dispatch().dispatch_bytes, Direction::kDispatch); }
  Bytes combine_row() const { return row(dispatch().combine_bytes, Direction::kCombine); }

 private:
  double scored(std::int64_t tokens, std::int64_t all) const;
  // Tokens of the step, where experts work on all of them; none where each row comes by itself.
  std::optional<double> tokens_of_experts() const;
  CollectiveKind collective(Direction direction) const {
    return collective_of(dispatch().network.transport, direction);
  }
  Bytes row(double element_bytes, Direction direction) const {
    return Bytes(model_.hidden * element_bytes) * passes(collective(direction));
  }
  Network::LayerExchange exchanges(const TrafficMatrix& traffic, std::vector<double>& link_bytes) const;
  // Products and the collectives around them, which wait for the slowest link (already in their prices) and not for slow
  // GPUs. `link`: the share of their rate that a rank's ports have.
  struct SummedProducts {
    Price before, products, after;
  };
  Price on_links(const std::function<Price(Bytes)>& price, Bytes bytes, double speed) const;
  Price within_rank(CollectiveKind kind, Bytes bytes, double link) const;
  double rank_link(std::size_t rank) const;
  double slowest_link() const;
  SummedProducts attention_of(const RankBatch& batch, double link) const;
  SummedProducts with_reduction(Price part, Sharding sharding, std::int64_t tokens, double link) const;
  SummedProducts dense_over_all(std::int64_t tokens) const;
  // Attention and experts share all GPUs, and every GPU has every row: two sums a layer, of attention's parts and of the
  // FFN's. Shared experts are added before the second.
  bool two_sums() const {
    return dispatch().network.transport == Transport::kAllReduce && parallelism_.dp_ranks() == 1;
  }
  SummedProducts shared_of(std::int64_t tokens, double link) const;
  Seconds shared_least(std::int64_t tokens) const;
  SummedProducts dense_of(std::int64_t tokens, double link) const;
  SummedProducts head_over_all(std::int64_t sampled) const;
  double rank_speed(std::size_t rank) const;

  MoeSpec model_;
  ClusterShape shape_;
  Parallelism parallelism_;
  struct Way {
    DispatchOptions options;
    std::unique_ptr<Network> network;
  };
  std::vector<Way> ways_;
  std::size_t now_ = 0;
  double step_tokens_ = 0;  // of all ranks
  ComputeModel compute_;
  FlopsPerSecond expert_peak_, ffn_peak_;
  BytesPerSecond memory_;
  StepConditions conditions_;
};

}  // namespace epsim
