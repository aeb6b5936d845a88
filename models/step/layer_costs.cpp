#include "models/step/layer_costs.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "models/network/make_network.h"
#include "sim/core/check.h"
#include "sim/core/sum_and_max.h"

namespace epsim {
namespace {

// The GPU's rate of products with such weights; of bf16 where it has none.
FlopsPerSecond peak_of(const GpuSpec& gpu, WeightType type) {
  const FlopsPerSecond own = gpu.product_rate(type);
  return own.count() > 0 ? own : gpu.bf16_peak;
}

Price slowed(const Price& price, double speed) { return {price.time / speed, price.origin}; }

}  // namespace

LayerCosts::LayerCosts(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
                       const DispatchOptions& dispatch, const ComputeProfile& compute, const NetworkProfile& network)
    : model_(parallelism.one_gpu_of(model)),
      shape_(shape_of(cluster)),
      parallelism_(parallelism),
      compute_(model_, cluster.node.gpu, parallelism,
               compute.with_backend(OpKind::kGroupedGemm, name_of(dispatch.expert_kernels))
                   .with_backend(OpKind::kDenseGemm, name_of(dispatch.dense_kernels))),
      expert_peak_(peak_of(cluster.node.gpu, model.dtype)),
      ffn_peak_(peak_of(cluster.node.gpu, model.weights_of(WeightsOf::kFfn))),
      memory_(cluster.node.gpu.memory_bandwidth) {
  for (const DispatchOptions* way = &dispatch; way != nullptr; way = way->other()) {
    ways_.push_back({*way, make_network(cluster, network, way->network)});
  }
  EPSIM_CHECK(ways_.size() <= 2 && !(dispatch.decode_steps && dispatch.uneven_steps), "at most one other way");
}

void LayerCosts::choose_way(std::span<const std::int64_t> tokens, std::span<const std::int64_t> decodes) {
  const DispatchOptions& first = ways_.front().options;
  const std::int64_t all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
  step_tokens_ = static_cast<double>(all);
  bool other = first.decode_steps != nullptr && std::equal(tokens.begin(), tokens.end(), decodes.begin());
  if (first.uneven_steps != nullptr) {
    const auto ranks = static_cast<std::int64_t>(tokens.size());
    other = ranks == 1 || 2 * all <= ranks * *std::max_element(tokens.begin(), tokens.end());
  }
  now_ = other ? 1 : 0;
}

void LayerCosts::set_conditions(const StepConditions& conditions) {
  for (const std::vector<double>* speeds : {&conditions.gpu_speed, &conditions.link_speed, &conditions.nic_speed}) {
    EPSIM_CHECK(speeds->empty() || speeds->size() == static_cast<std::size_t>(parallelism_.gpus), "one speed per GPU");
    EPSIM_CHECK(std::all_of(speeds->begin(), speeds->end(), [](double s) { return s > 0; }),
                "an active GPU or link has a speed above 0");
  }
  conditions_ = conditions;
}

double LayerCosts::rank_speed(std::size_t rank) const {
  if (conditions_.gpu_speed.empty()) {
    return 1.0;
  }
  const auto first = conditions_.gpu_speed.begin() + static_cast<std::ptrdiff_t>(rank) * parallelism_.attention_tp;
  return *std::min_element(first, first + parallelism_.attention_tp);
}

// Inside a node: its GPUs' ports.
double LayerCosts::rank_link(std::size_t rank) const {
  if (conditions_.link_speed.empty()) {
    return 1.0;
  }
  const auto first = conditions_.link_speed.begin() + static_cast<std::ptrdiff_t>(rank) * parallelism_.attention_tp;
  return *std::min_element(first, first + parallelism_.attention_tp);
}

// All GPUs' ports, and over nodes their NICs, which run at a share of what is left of the ports.
double LayerCosts::slowest_link() const {
  const std::vector<double>&ports = conditions_.link_speed, &nics = conditions_.nic_speed;
  const bool over_nodes = shape_.nodes() > 1 && !nics.empty();
  double out = 1.0;
  for (std::size_t g = 0; g < static_cast<std::size_t>(parallelism_.gpus) && slowed_links(); ++g) {
    out = std::min(out, (ports.empty() ? 1.0 : ports[g]) * (over_nodes ? nics[g] : 1.0));
  }
  return out;
}

// What slow links take longer for: all but the latency, which a message of a byte has.
Price LayerCosts::on_links(const std::function<Price(Bytes)>& price, Bytes bytes, double speed) const {
  const Price all = price(bytes);
  if (speed == 1) {
    return all;
  }
  const Seconds latency = std::min(all.time, price(Bytes(1)).time);
  return {latency + (all.time - latency) / speed, all.origin};
}

Price LayerCosts::over_all(CollectiveKind kind, Bytes bytes) const {
  return on_links([&](Bytes b) { return network().over_all(kind, b); }, bytes, slowest_link());
}

Price LayerCosts::within_rank(CollectiveKind kind, Bytes bytes, double link) const {
  return on_links([&](Bytes b) { return network().within_node(kind, parallelism_.attention_tp, b); }, bytes, link);
}

// Attention's all-gather of the rank's tokens, and the reduce-scatter of its output; neither where collectives over all
// GPUs do their work.
LayerCosts::SummedProducts LayerCosts::attention_of(const RankBatch& batch, double link) const {
  const Bytes hidden(static_cast<double>(batch.tokens()) * model_.hidden * 2.0);  // bf16 activations
  const Price attention = compute_.attention(batch);
  const Transport transport = dispatch().network.transport;
  if (transport == Transport::kAllReduce) {
    return {{}, attention, {}};  // adds the parts of the rank's GPUs up, and the one back gives each of them all rows
  }
  const Price reduce = within_rank(CollectiveKind::kReduceScatter, hidden, link);
  const Price gather = within_rank(CollectiveKind::kAllGather, hidden, link);
  switch (transport) {
    case Transport::kAllGatherAllReduce:
      return {{}, attention, reduce};
    case Transport::kBroadcastAllReduce:  // the rank's GPUs add up attention's parts, and then those of their experts
      return {{}, attention, reduce + gather + reduce + gather};
    default:
      return {{}, attention, reduce + gather};
  }
}

LayerCosts::SummedProducts LayerCosts::with_reduction(Price part, Sharding sharding, std::int64_t tokens,
                                                      double link) const {
  if (sharding == Sharding::kReplicated || part.time.count() <= 0) {
    return {{}, part, {}};
  }
  const Bytes hidden(static_cast<double>(tokens) * model_.hidden * 2.0);
  return {within_rank(CollectiveKind::kAllGather, hidden, link), part,
          within_rank(CollectiveKind::kReduceScatter, hidden, link)};
}

// SGLang's dp_gather and the MLP's own sum: all-reduces over all GPUs of a buffer of all ranks' tokens.
LayerCosts::SummedProducts LayerCosts::dense_over_all(std::int64_t tokens) const {
  const Price products = compute_.dense_ffn(tokens);
  if (products.time.count() <= 0) {
    return {};
  }
  const Bytes hidden(static_cast<double>(tokens) * model_.hidden * 2.0);
  const Price sum = over_all(CollectiveKind::kAllReduce, hidden);
  return {sum, products, sum};
}

LayerCosts::SummedProducts LayerCosts::shared_of(std::int64_t tokens, double link) const {
  const Price products = compute_.shared_expert(tokens);
  return two_sums() ? SummedProducts{{}, products, {}}
                    : with_reduction(products, parallelism_.shared_experts, tokens, link);
}

Seconds LayerCosts::shared_least(std::int64_t tokens) const {
  const double split = parallelism_.shared_experts == Sharding::kReplicated ? 1.0 : parallelism_.attention_tp;
  const double rows = static_cast<double>(tokens) * split / parallelism_.attention_tp;
  const double weights = 3.0 * model_.hidden * model_.shared_intermediate / split;
  return tokens <= 0 ? Seconds{}
                     : std::max(Bytes(weights * model_.weight_bytes(WeightsOf::kFfn)) / memory_,
                                Flops(2.0 * weights * rows) / ffn_peak_);
}

LayerCosts::SummedProducts LayerCosts::dense_of(std::int64_t tokens, double link) const {
  const Price products = compute_.dense_ffn(tokens);
  if (!two_sums() || products.time.count() <= 0) {
    return with_reduction(products, parallelism_.dense_ffn, tokens, link);
  }
  const Bytes hidden(static_cast<double>(tokens) * model_.hidden * 2.0);
  const Price sum = over_all(CollectiveKind::kAllReduce, hidden);
  return {sum, products, parallelism_.dense_ffn == Sharding::kReplicated ? Price{} : sum};
}

// The rows to sample from, gathered as dp_gather does; every GPU's part of the vocabulary, and of the bf16 logits all.
LayerCosts::SummedProducts LayerCosts::head_over_all(std::int64_t sampled) const {
  const auto rows = static_cast<double>(sampled);
  return {over_all(CollectiveKind::kAllReduce, Bytes(rows * model_.hidden * 2.0)), compute_.head(sampled),
          over_all(CollectiveKind::kAllGather, Bytes(rows * model_.vocab * 2.0))};
}

// Tokens that each of a rank's GPUs scores: all of the step where they are added up over all GPUs ahead of the router; of
// the rank where every rank tells the others its own by a broadcast; else a part, as between the GPUs of a rank.
double LayerCosts::scored(std::int64_t tokens, std::int64_t all) const {
  switch (dispatch().network.transport) {
    case Transport::kAllReduce:
    case Transport::kAllGatherAllReduce:
      return static_cast<double>(all);
    case Transport::kBroadcastAllReduce:
      return static_cast<double>(tokens);
    default:
      return static_cast<double>(tokens) / parallelism_.attention_tp;
  }
}

void LayerCosts::ranks(std::span<const RankBatch> batches, std::vector<RankCost>& out) const {
  out.resize(batches.size());
  const auto on_all = [&](Sharding sharding) { return sharding == Sharding::kAllGpus && batches.size() > 1; };
  std::int64_t all = 0, sampled = 0;
  for (const RankBatch& batch : batches) {
    all += batch.tokens();
    sampled += batch.sampled;
  }
  const bool dense_all = on_all(parallelism_.dense_ffn), head_all = on_all(parallelism_.lm_head);
  const SummedProducts dense = dense_all ? dense_over_all(all) : SummedProducts{},
                       head = head_all ? head_over_all(sampled) : SummedProducts{};
  for (std::size_t r = 0; r < batches.size(); ++r) {
    const RankBatch& batch = batches[r];
    const std::int64_t tokens = batch.tokens();
    const double speed = rank_speed(r), link = rank_link(r);
    const auto piece = [speed](const Price& price) { return tick_cost(slowed(price, speed)); };
    const auto around = [speed](const SummedProducts& s) {
      return tick_cost(s.before + slowed(s.products, speed) + s.after);
    };
    out[r] = {tokens,
              around(attention_of(batch, link)),
              piece(compute_.gate(scored(tokens, all))),
              around(shared_of(tokens, link)),
              around(dense_all ? dense : dense_of(tokens, link)),
              head_all ? around(head) : piece(compute_.head(batch.sampled)),
              piece(compute_.before_scores(batch)),
              to_ticks(shared_least(tokens) / speed)};
  }
}

Price LayerCosts::mtp_input(std::span<const RankBatch> batches) const {
  Price out;
  for (std::size_t r = 0; r < batches.size(); ++r) {
    const Price here = slowed(compute_.mtp_input(batches[r].tokens()), rank_speed(r));
    out = here.time > out.time ? here : out;
  }
  return out;
}

std::optional<double> LayerCosts::tokens_of_experts() const {
  const CollectiveKind kind = collective(Direction::kDispatch);
  const bool everywhere = kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllReduce;
  return everywhere || parallelism_.ep_size() == 1 ? std::optional(step_tokens_) : std::nullopt;
}

Price LayerCosts::experts(int gpu, double rows, double touched, bool tokens) const {
  const std::optional<double> all = tokens_of_experts();
  const Price price = compute_.experts(rows, touched, all && !tokens ? std::optional(0.0) : all);
  return conditions_.gpu_speed.empty() ? price : slowed(price, conditions_.gpu_speed[gpu]);
}

Network::LayerExchange LayerCosts::exchanges(const TrafficMatrix& traffic, std::vector<double>& link_bytes) const {
  Network::LayerExchange out = network().dispatch_and_combine(traffic, dispatch_row(), combine_row(), link_bytes);
  if (slowed_links()) {
    std::vector<double> not_counted(link_bytes.size(), 0.0);
    const auto price = [&](Direction direction, Bytes row) {
      return network().all_to_all(as_slowed(traffic, direction), row, direction, not_counted);
    };
    out = {price(Direction::kDispatch, dispatch_row()), price(Direction::kCombine, combine_row())};
  }
  // An all-reduce may be: a switch that adds up carries each row once.
  const auto possible = [&](const ExchangePrice& price, Direction direction) {
    return price.price.time >= price.wire || collective(direction) == CollectiveKind::kAllReduce;
  };
  EPSIM_CHECK(possible(out.dispatch, Direction::kDispatch) && possible(out.combine, Direction::kCombine),
              "an exchange is not faster than its busiest link");
  return out;
}

void LayerCosts::layer(const TrafficMatrix& traffic, std::vector<double>& link_bytes, MoeLayerCost& out) const {
  const auto [dispatch, combine] = exchanges(traffic, link_bytes);
  out.counts = this->dispatch().exchange_counts ? tick_cost(network().latency()) : TickCost{};
  out.dispatch = tick_cost(dispatch.price);
  out.combine = tick_cost(combine.price);
  out.dispatch_straggler = dispatch.straggler;
  out.combine_straggler = combine.straggler;
  out.dispatch_bottleneck = dispatch.bottleneck;
  out.combine_bottleneck = combine.bottleneck;
  compute_.experts(traffic.executed, traffic.touched, tokens_of_experts(), out.experts);
  for (std::size_t g = 0; g < conditions_.gpu_speed.size(); ++g) {
    out.experts.seconds[g] /= conditions_.gpu_speed[g];
  }
  const double max_rows = sum_and_max(traffic.executed).max;
  const Seconds longest(sum_and_max(out.experts.seconds).max);
  // physics.md section 9: no part is shorter than its busiest resource allows.
  EPSIM_CHECK(!conditions_.gpu_speed.empty() ||
                  longest >= Flops(max_rows * 6.0 * model_.hidden * model_.moe_intermediate) / expert_peak_,
              "expert work is not faster than the GPU's peak");
}

}  // namespace epsim
