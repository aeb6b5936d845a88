#include "models/step_model.h"

#include <algorithm>
#include <cmath>

#include "sim/core/check.h"

namespace epsim {
namespace {

void add(StepCost& cost, LayerPart part, const Price& price, double times = 1.0) {
  const Seconds time = price.time * times;
  cost.total += time;
  cost.by_part[static_cast<std::size_t>(part)] += time;
  cost.by_origin[static_cast<std::size_t>(price.origin)] += time;
}

// The slowest of several prices, and how much longer it takes than their mean.
struct Slowest {
  Price price;
  Seconds sum{};
  int count = 0;
  void add(const Price& p) {
    price = p.time > price.time ? p : price;
    sum += p.time;
    ++count;
  }
  // Never below zero, though the mean of equal times may round to a little more than each.
  Seconds straggler() const { return std::max(Seconds{}, price.time - sum / std::max(1, count)); }
};

Price plus(const Price& a, const Price& b) {
  if (b.time.count() <= 0) {
    return a;
  }
  return a.time.count() <= 0 ? b : Price{a.time + b.time, weaker(a.origin, b.origin)};
}

}  // namespace

StepModel::StepModel(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
                     const DispatchOptions& dispatch, const Placement& placement, const LoadSource& loads,
                     ComputeProfile compute, NetworkProfile network)
    : model_(model),
      parallelism_(parallelism),
      dispatch_(dispatch),
      placement_(placement),
      loads_(loads),
      compute_(model, cluster.node.gpu, parallelism, std::move(compute)),
      network_(cluster, std::move(network)),
      peak_(cluster.node.gpu.bf16_peak),
      traffic_model_(placement, parallelism, shape_of(cluster), dispatch.dedup),
      tokens_(static_cast<std::size_t>(parallelism.dp_ranks())),
      link_bytes_(network_.links().size(), 0.0) {
  EPSIM_CHECK(placement.layers() == model.moe_layers() && loads.layers() == model.moe_layers(),
              "one row per MoE layer");
  EPSIM_CHECK(placement.experts() == model.experts && loads.experts() == model.experts, "one load per expert");
  const auto cells = static_cast<std::size_t>(model.moe_layers()) * static_cast<std::size_t>(parallelism.gpus);
  totals_.gpus = parallelism.gpus;
  totals_.gpu_load.assign(cells, 0.0);
  totals_.gpu_busy_s.assign(cells, 0.0);
  for (const int number : model.moe_layer_numbers()) {
    totals_.layers.push_back({.layer_number = number});
  }
  for (const TwoTierNetwork::Link& link : network_.links()) {
    totals_.links.push_back({link.name, link.rate, Bytes(0)});
  }
}

// Attention's all-gather of the rank's tokens, and the reduce-scatter of its output.
Price StepModel::attention_of(const RankBatch& batch) const {
  const Bytes hidden(static_cast<double>(batch.tokens()) * model_.hidden * 2.0);  // bf16 activations
  const int tp = parallelism_.attention_tp;
  const Price reduce = network_.within_node(CollectiveKind::kReduceScatter, tp, hidden);
  const Price gather = network_.within_node(CollectiveKind::kAllGather, tp, hidden);
  return plus(plus(compute_.attention(batch), reduce), gather);
}

Price StepModel::with_reduction(Price part, Sharding sharding, std::int64_t tokens) const {
  if (sharding != Sharding::kTensorParallel || part.time.count() <= 0) {
    return part;
  }
  const Bytes hidden(static_cast<double>(tokens) * model_.hidden * 2.0);
  const int tp = parallelism_.attention_tp;
  const Price gather = network_.within_node(CollectiveKind::kAllGather, tp, hidden);
  return plus(plus(gather, part), network_.within_node(CollectiveKind::kReduceScatter, tp, hidden));
}

StepModel::Common StepModel::common_parts(std::span<const RankBatch> ranks) const {
  Slowest attention, gate, shared, dense;
  for (const RankBatch& batch : ranks) {
    attention.add(attention_of(batch));
    gate.add(compute_.gate(batch.tokens()));
    shared.add(with_reduction(compute_.shared_expert(batch.tokens()), parallelism_.shared_experts, batch.tokens()));
    dense.add(with_reduction(compute_.dense_ffn(batch.tokens()), parallelism_.dense_ffn, batch.tokens()));
  }
  return {attention.price,    gate.price,       shared.price, dense.price, attention.straggler() + gate.straggler(),
          shared.straggler(), dense.straggler()};
}

void StepModel::moe_layer(int l, const Common& common, StepCost& cost) {
  traffic_model_.layer(l, step_loads_, tokens_, traffic_);
  const Bytes out(model_.hidden * dispatch_.dispatch_bytes), back(model_.hidden * dispatch_.combine_bytes);
  const ExchangePrice dispatch = network_.all_to_all(traffic_, out, Direction::kDispatch, link_bytes_);
  const ExchangePrice combine = network_.all_to_all(traffic_, back, Direction::kCombine, link_bytes_);
  const Price counts = dispatch_.exchange_counts ? network_.latency() : Price{};

  Slowest experts;
  double most_rows = 0;
  const std::size_t row = static_cast<std::size_t>(l) * traffic_.executed.size();
  for (std::size_t g = 0; g < traffic_.executed.size(); ++g) {
    const Price here = compute_.experts(traffic_.executed[g], traffic_.touched[g]);
    experts.add(here);
    most_rows = std::max(most_rows, traffic_.executed[g]);
    totals_.gpu_load[row + g] += traffic_.executed[g];
    totals_.gpu_busy_s[row + g] += here.time.count();
  }
  // physics.md section 9: no part is shorter than its busiest resource allows.
  EPSIM_CHECK(experts.price.time >= Flops(most_rows * 6.0 * model_.hidden * model_.moe_intermediate) / peak_,
              "expert work is not faster than the GPU's peak");
  EPSIM_CHECK(dispatch.price.time >= dispatch.wire && combine.price.time >= combine.wire,
              "an exchange is not faster than its busiest link");

  StepCost layer;
  add(layer, LayerPart::kAttention, common.attention);
  add(layer, LayerPart::kGate, common.gate);
  add(layer, LayerPart::kDispatch, counts);
  add(layer, LayerPart::kDispatch, dispatch.price);
  add(layer, LayerPart::kExperts, experts.price);
  add(layer, LayerPart::kDense, common.shared);
  add(layer, LayerPart::kCombine, combine.price);
  layer.straggler = common.attention_straggler + common.shared_straggler + dispatch.straggler + experts.straggler() +
                    combine.straggler;

  LayerTotals& totals = totals_.layers[static_cast<std::size_t>(l)];
  const double balance = balancedness(traffic_.executed);
  totals.straggler += layer.straggler;
  totals.balancedness_sum += balance;
  totals.balancedness_min = std::min(totals.balancedness_min, balance);
  totals_.assignments_routed += static_cast<double>(step_tokens_) * model_.top_k;
  for (std::size_t p = 0; p < layer.by_part.size(); ++p) {
    totals.by_part[p] += layer.by_part[p];
    cost.by_part[p] += layer.by_part[p];
  }
  for (std::size_t o = 0; o < layer.by_origin.size(); ++o) {
    cost.by_origin[o] += layer.by_origin[o];
  }
  cost.total += layer.total;
  cost.straggler += layer.straggler;
}

StepCost StepModel::price(std::int64_t step, std::span<const RankBatch> ranks) {
  EPSIM_CHECK(ranks.size() == tokens_.size(), "one batch per DP rank");
  step_tokens_ = 0;
  std::int64_t sampled = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    tokens_[r] = ranks[r].tokens();
    step_tokens_ += tokens_[r];
    sampled = std::max(sampled, ranks[r].sampled);
  }
  loads_.draw(step, tokens_, step_loads_);
  const Common common = common_parts(ranks);
  StepCost cost;
  const double dense_layers = model_.dense_layers();
  add(cost, LayerPart::kAttention, common.attention, dense_layers);
  add(cost, LayerPart::kDense, common.dense, dense_layers);
  cost.straggler += (common.attention_straggler + common.dense_straggler) * dense_layers;
  for (int l = 0; l < model_.moe_layers(); ++l) {
    moe_layer(l, common, cost);
  }
  add(cost, LayerPart::kOther, compute_.head(sampled));
  ++totals_.steps;
  return cost;
}

const StepTotals& StepModel::totals() {
  for (std::size_t i = 0; i < link_bytes_.size(); ++i) {
    totals_.links[i].bytes = Bytes(link_bytes_[i]);
  }
  return totals_;
}

}  // namespace epsim
