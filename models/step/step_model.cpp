#include "models/step/step_model.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "sim/core/check.h"
#include "sim/core/sum_and_max.h"

namespace epsim {

StepModel::StepModel(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
                     const DispatchOptions& dispatch, const Placement& placement, const ExpertLoadSource& loads,
                     const ComputeProfile& compute, const NetworkProfile& network, const UsedTogether& together)
    : draws_(std::make_shared<StepDraws>(loads)),
      costs_(model, cluster, parallelism, dispatch, compute, network),
      shape_(shape_of(cluster)),
      together_(together),
      stats_(model, parallelism.gpus, costs_.network()),
      moe_numbers_(model.moe_layer_numbers()),
      tokens_(parallelism.dp_ranks()),
      decodes_(tokens_.size()) {
  EPSIM_CHECK(loads.layers() == model.moe_layers(), "one row per MoE layer");
  EPSIM_CHECK(loads.experts() == model.experts, "one load per expert");
  set_placement(placement);
  int next = 0;
  for (const int number : moe_numbers_) {
    dense_before_.push_back(number - next);
    next = number + 1;
  }
  dense_before_.push_back(model.layers - next);
  stretches_.resize(1 + static_cast<std::size_t>(*std::max_element(dense_before_.begin(), dense_before_.end())));
}

void StepModel::set_placement(const Placement& placement) {
  const MoeSpec& model = costs_.model();
  EPSIM_CHECK(placement.layers() == model.moe_layers() && placement.experts() == model.experts,
              "a placement of the model's experts");
  traffic_models_.clear();
  for (std::size_t way = 0; way < costs_.ways(); ++way) {
    costs_.take_way(way);
    traffic_models_.emplace_back(placement, costs_.parallelism(), shape_, costs_.dispatch().dedup, together_);
  }
  costs_.take_way(0);
  forget_layers();
}

void StepModel::set_conditions(const StepConditions& conditions) {
  costs_.set_conditions(conditions);
  forget_layers();
}

void StepModel::share_draws(std::shared_ptr<StepDraws> draws) {
  draws_ = std::move(draws);
  forget_layers();
}

void StepModel::forget_layers() {
  layers_.assign(holds_draws() ? moe_numbers_.size() : 1, {});
  priced_ = layers_.data();
}

void StepModel::begin(const StepAt& at, std::span<const RankBatch> ranks, int batches) {
  EPSIM_CHECK(ranks.size() == tokens_.size(), "one batch per DP rank");
  batches_ = batches;
  shared_beside_ = at.shared_beside;
  std::int64_t tokens = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    tokens_[r] = ranks[r].routed_tokens();
    decodes_[r] = ranks[r].routed_decodes();
    tokens += tokens_[r];
  }
  costs_.choose_way(tokens_, decodes_);
  step_loads_ = &draws_->draw(at, tokens_, decodes_);
  const int top_k = costs_.model().top_k;
  assignments_ = static_cast<double>(tokens) * top_k;
  for (std::size_t r = 0; r < tokens_.size() && !step_loads_->rerouted.empty(); ++r) {
    stats_.rerouted(static_cast<double>(tokens_[r]) * step_loads_->rerouted[step_loads_->sources == 1 ? 0 : r]);
  }
  if (const ExpertCapacity& capacity = costs_.dispatch().capacity; capacity.factor > 0) {
    pad_to_capacity(capacity, top_k, *step_loads_, tokens_, padded_);
    step_loads_ = &padded_.loads;
    assignments_ = padded_.executed_per_layer;
    stats_.dropped(padded_.dropped);
  }
  costs_.ranks(ranks, ranks_);
}

const MoeLayerCost& StepModel::layer(int l) {
  const bool held = holds_draws();
  priced_ = &layers_[held ? l : 0];
  std::vector<double>& link_bytes = stats_.link_bytes();
  if (!held || priced_->draw != draws_->last()) {
    traffic_models_[costs_.way()].layer(l, *step_loads_, tokens_, priced_->traffic);
    priced_->link_bytes.assign(held ? link_bytes.size() : 0, 0.0);
    costs_.layer(priced_->traffic, held ? priced_->link_bytes : link_bytes, priced_->cost);
    priced_->draw = draws_->last();
  }
  std::ranges::transform(priced_->link_bytes, link_bytes, link_bytes.begin(), std::plus());
  const MoeLayerCost& cost = priced_->cost;
  stats_.bottlenecks(l, cost);
  stats_.load(l, priced_->traffic, cost.experts, 1.0 / batches_);
  stats_.routed(assignments_);
  return cost;
}

int StepModel::model_layer(int l) const {
  return l < std::ssize(moe_numbers_) ? moe_numbers_[l] : costs_.model().layers;
}

// `last`: after the last MoE layer, where the head stands in place of attention and gate.
StepModel::Stretch StepModel::slowest_rank(int dense_layers, bool last) const {
  Stretch out;
  Ticks sum{}, own{};
  const auto own_of = [](const RankCost& p) { return p.attention.time + p.gate.time; };
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const RankCost& p = ranks_[r];
    const Ticks length = (p.attention.time + p.dense.time) * dense_layers + (last ? p.head.time : own_of(p));
    sum += length;
    own += own_of(p);
    if (length > out.length) {
      out.rank = r;
      out.length = length;
    }
  }
  out.waiting = to_seconds(out.length) - to_seconds(sum) / static_cast<double>(ranks_.size());
  out.waiting = std::max(out.waiting, Seconds{});
  out.own = to_seconds(own_of(ranks_[out.rank])) - to_seconds(own) / static_cast<double>(ranks_.size());
  out.own = std::clamp(out.own, Seconds{}, out.waiting);
  return out;
}

void StepModel::shared_after(const PriceRow& experts, std::vector<TickCost>& out) const {
  const int tp = costs_.parallelism().attention_tp;
  out.clear();
  for (const RankCost& rank : ranks_) {
    const auto first = experts.seconds.begin() + std::ssize(out) * tp;
    const Ticks routed = rank.gate.time + to_ticks(Seconds(*std::max_element(first, first + tp)));
    const Ticks least = shared_beside_ ? std::min(rank.shared_least, rank.shared.time) : rank.shared.time;
    out.push_back({std::max(least, rank.shared.time - routed), rank.shared.origin});
  }
}

// The slowest rank's slowest GPU, and its shared experts.
void StepModel::experts_stretch(int l, StepSum& sum) {
  const std::size_t tp = costs_.parallelism().attention_tp;
  const PriceRow& experts_of = priced_->cost.experts;
  const std::vector<double>& seconds = experts_of.seconds;
  std::size_t slowest = 0;
  Ticks length{-1};
  TickCost shared;
  Seconds busy(sum_and_max(seconds).sum);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    std::size_t worst = r * tp;
    for (std::size_t g = r * tp; g < (r + 1) * tp; ++g) {
      worst = seconds[g] > seconds[worst] ? g : worst;
    }
    busy += to_seconds(shared_[r].time) * static_cast<double>(tp);
    const Ticks here = to_ticks(Seconds(seconds[worst])) + shared_[r].time;
    if (here > length) {
      shared = shared_[r];
      length = here;
      slowest = worst;
    }
  }
  const TickCost experts = tick_cost(experts_of[slowest]);
  sum.add(LayerPart::kExperts, experts);
  sum.add(LayerPart::kDense, shared);
  stats_.time(l, LayerPart::kExperts, experts.time);
  stats_.time(l, LayerPart::kDense, shared.time);
  const Seconds waiting = std::max(Seconds{}, to_seconds(length) - busy / static_cast<double>(experts_of.size()));
  sum.wait(waiting);
  stats_.straggler(l, waiting);
}

void StepModel::moe_layer(int l, StepSum& sum) {
  const int dense_layers = dense_before(l);
  const Stretch& stretch = stretches_[dense_layers];
  const RankCost& slowest = ranks_[stretch.rank];
  const Ticks start = sum.total();
  sum.add(LayerPart::kAttention, slowest.attention, dense_layers + 1);
  sum.add(LayerPart::kDense, slowest.dense, dense_layers);
  sum.add(LayerPart::kGate, slowest.gate);
  const MoeLayerCost& cost = layer(l);
  shared_after(cost.experts, shared_);
  if (recorder_ != nullptr) {
    record_ranks(l, dense_layers, start);
    record_layer(l, sum.total());
  }
  sum.add(LayerPart::kDispatch, cost.counts);
  sum.add(LayerPart::kDispatch, cost.dispatch);
  experts_stretch(l, sum);
  sum.add(LayerPart::kCombine, cost.combine);
  const Seconds exchanges = cost.dispatch_straggler + cost.combine_straggler;
  sum.wait(stretch.waiting + exchanges);
  stats_.straggler(l, stretch.own + exchanges);
  stats_.time(l, LayerPart::kAttention, slowest.attention.time);
  stats_.time(l, LayerPart::kGate, slowest.gate.time);
  stats_.time(l, LayerPart::kDispatch, cost.counts.time + cost.dispatch.time);
  stats_.time(l, LayerPart::kCombine, cost.combine.time);
}

StepCost StepModel::price(const StepAt& at, std::span<const RankBatch> ranks) {
  begin(at, ranks);
  for (std::size_t d = 0; d < stretches_.size(); ++d) {
    stretches_[d] = slowest_rank(static_cast<int>(d), false);
  }
  StepSum sum;
  const int layers = static_cast<int>(moe_numbers_.size());
  for (int l = 0; l < layers; ++l) {
    moe_layer(l, sum);
  }
  const int trailing = dense_before(layers);
  const Stretch last = slowest_rank(trailing, true);
  const RankCost& slowest = ranks_[last.rank];
  if (recorder_ != nullptr) {
    record_ranks(layers, trailing, sum.total());
  }
  sum.add(LayerPart::kAttention, slowest.attention, trailing);
  sum.add(LayerPart::kDense, slowest.dense, trailing);
  sum.add(LayerPart::kOther, slowest.head);
  sum.wait(last.waiting);
  stats_.end_step();
  return sum.cost();
}

// Every rank's pieces between two exchanges, each starting as soon as the one before has ended.
void StepModel::record_ranks(int l, int dense_layers, Ticks start) const {
  const int tp = costs_.parallelism().attention_tp;
  const bool last = l == std::ssize(moe_numbers_);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const RankCost& p = ranks_[r];
    Ticks at = start;
    int layer = model_layer(l) - dense_layers;
    const auto tell = [&](LayerPart part, const TickCost& piece) {
      if (piece.time > Ticks{}) {
        recorder_->span({.layer = layer,
                         .part = part,
                         .first_gpu = static_cast<std::int32_t>(r) * tp,
                         .gpus = tp,
                         .start = at,
                         .duration = piece.time});
      }
      at += piece.time;
    };
    for (int i = 0; i < dense_layers; ++i, ++layer) {
      tell(LayerPart::kAttention, p.attention);
      tell(LayerPart::kDense, p.dense);
    }
    layer = last ? -1 : layer;
    if (last) {
      tell(LayerPart::kOther, p.head);
    } else {
      tell(LayerPart::kAttention, p.attention);
      tell(LayerPart::kGate, p.gate);
    }
  }
}

StepExchange StepModel::exchange_of(int l, LayerPart part, int batch, const TrafficMatrix& t,
                                    const MoeLayerCost& cost) const {
  const bool dispatch = part == LayerPart::kDispatch;
  const int link = dispatch ? cost.dispatch_bottleneck : cost.combine_bottleneck;
  return {.layer = model_layer(l),
          .part = part,
          .micro_batch = batch,
          .row_bytes = (dispatch ? costs_.dispatch_row() : costs_.combine_row()).count(),
          .intra_out = dispatch ? t.intra_out : t.intra_in,
          .intra_in = dispatch ? t.intra_in : t.intra_out,
          .inter_out = dispatch ? t.inter_out : t.inter_in,
          .inter_in = dispatch ? t.inter_in : t.inter_out,
          .slowest_link = link >= 0 ? std::string_view(costs_.network().links()[link].name) : std::string_view(),
          .duration = (dispatch ? cost.dispatch : cost.combine).time};
}

// The layer's exchanges and experts; `start`: all ranks have reached the dispatch.
void StepModel::record_layer(int l, Ticks start) const {
  const int gpus = costs_.parallelism().gpus, tp = costs_.parallelism().attention_tp, layer = model_layer(l);
  const MoeLayerCost& cost = priced_->cost;
  const auto exchange = [&](LayerPart part, Ticks at, Ticks length) {
    recorder_->span({layer, part, StepLane::kNetwork, 0, 0, gpus, at, length});
    recorder_->exchange(exchange_of(l, part, 0, priced_->traffic, cost));
  };
  const Ticks sent = cost.counts.time + cost.dispatch.time;
  exchange(LayerPart::kDispatch, start, sent);
  Ticks end = start + sent;
  for (int r = 0; r * tp < gpus; ++r) {
    Ticks experts{};
    for (int g = r * tp; g < (r + 1) * tp; ++g) {
      const Ticks here = to_ticks(cost.experts[g].time);
      experts = std::max(experts, here);
      if (here > Ticks{}) {
        recorder_->span({layer, LayerPart::kExperts, StepLane::kCompute, 0, g, 1, start + sent, here});
      }
    }
    const Ticks shared = shared_[static_cast<std::size_t>(r)].time;
    if (shared > Ticks{}) {
      recorder_->span({layer, LayerPart::kDense, StepLane::kCompute, 0, r * tp, tp, start + sent + experts, shared});
    }
    end = std::max(end, start + sent + experts + shared);
  }
  exchange(LayerPart::kCombine, end, cost.combine.time);
}

}  // namespace epsim
