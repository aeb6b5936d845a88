#include "sim/step/policy_pricer.h"

#include <algorithm>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/mapped.h"
#include "sim/step/step_routing.h"

namespace epsim {
namespace {

// Weights from the host share no port with tokens.
std::vector<LaneSlowdown> slowdowns_of(const ExecutionOptions& execution, const ExecutionProfile& profile) {
  constexpr auto network = static_cast<std::int16_t>(StepLane::kNetwork),
                 copy = static_cast<std::int16_t>(StepLane::kCopy);
  std::vector<LaneSlowdown> out = slowdowns_of_kernels(execution);
  if (!profile.copies_from_host) {
    out.push_back({network, copy, 0.5});
    out.push_back({copy, network, 0.5});
  }
  return out;
}

}  // namespace

PolicyPricer::PolicyPricer(StepModel& model, const StepPolicy& policy, const ClusterSpec& cluster,
                           const ExecutionOptions& execution, const StepPolicyRun& options, const PlacementPlan& plan,
                           const LoadWindow& stale, Seed seed)
    : model_(model),
      policy_(policy),
      cluster_(cluster),
      options_(options),
      profile_(policy.profile()),
      stale_(stale),
      seed_(seed),
      home_(homes_of(plan, shape_of(cluster).gpus_per_node)),
      reader_(shape_of(cluster), model.costs().dispatch().dedup, profile_),
      player_(model, order_of(profile_), slowdowns_of(execution, profile_)) {
  const auto gpus = static_cast<std::size_t>(cluster.gpus());
  first_.resize(gpus);
  then_.resize(gpus);
  copy_.resize(gpus);
}

// The same draws for every policy of a comparison: the stream knows the step and the layer alone.
void PolicyPricer::decide(std::int64_t step, int l) {
  RandomStream random(seed_, "step-policy", static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(l));
  const RequestMatrix requests =
      draw_requests(model_.loads(), l, model_.costs().parallelism(), gpu_tokens_, model_.costs().model().top_k, random);
  const RequestMatrix predicted = predict_layer(profile_, l, requests, stale_.layer(l), options_.predictor, random);
  const Residency& home = home_[static_cast<std::size_t>(l)];
  const StepDecision decision = policy_.decide(requests, predicted, home);
  EPSIM_CHECK(decision.tokens.total() == requests.total(), "a policy has every assignment executed once");
  check_predicted(profile_, predicted, decision);
  planned_ = decision.planned;
  model_.stats().policy_acted(acts(profile_, decision, home));
  reader_.read(requests, decision, home, gpu_tokens_, model_.joint_powers(l), work_);
  model_.stats().routed(static_cast<double>(requests.total()));
}

// A collective of all GPUs on what every rank brings, padded to the largest.
Price PolicyPricer::gather(CollectiveKind kind, Bytes row) const {
  const double most = static_cast<double>(*std::max_element(gpu_tokens_.begin(), gpu_tokens_.end()));
  return model_.costs().over_all(kind, row * (most * static_cast<double>(gpu_tokens_.size())));
}

void PolicyPricer::price_exchanges() {
  const LayerCosts& costs = model_.costs();
  costs.layer(work_.tokens, model_.stats().link_bytes(), layer_);
  if (profile_.dispatch == ExecutionProfile::Dispatch::kAllGather) {
    layer_.dispatch = tick_cost(gather(CollectiveKind::kAllGather, costs.dispatch_row()));
    layer_.combine = tick_cost(gather(CollectiveKind::kReduceScatter, costs.combine_row()));
    layer_.dispatch_straggler = layer_.combine_straggler = Seconds{};
    layer_.dispatch_bottleneck = layer_.combine_bottleneck = -1;  // every port carries the same
  }
}

void PolicyPricer::price_copies() {
  const LayerCosts& costs = model_.costs();
  const Network& network = costs.network();
  const Bytes expert = costs.model().expert_bytes();
  if (work_.copies == 0) {
    for (std::size_t g = 0; g < copy_.size(); ++g) {
      copy_.set(g, {});
    }
    return;
  }
  if (profile_.copies_from_host) {
    for (std::size_t g = 0; g < copy_.size(); ++g) {
      const Seconds wire = expert * work_.from_host[g] / cluster_.node.gpu.host_rate;
      copy_.set(g, {wire / options_.copy_efficiency, Origin::kExtrapolated});
    }
    return;
  }
  network.count(work_.weights, expert, model_.stats().link_bytes());
  const TrafficMatrix slowed =
      costs.slowed_links() ? costs.as_slowed(work_.weights, Direction::kDispatch) : TrafficMatrix{};
  const Network::PortWires wires = network.port_wires(costs.slowed_links() ? slowed : work_.weights, expert);
  const Seconds busiest_source = *std::max_element(wires.out.begin(), wires.out.end());
  for (std::size_t g = 0; g < copy_.size(); ++g) {
    const Seconds wire = wires.in[g].count() > 0 ? std::max(wires.in[g], busiest_source) : Seconds{};
    copy_.set(g, {wire / options_.copy_efficiency, Origin::kExtrapolated});
  }
}

Price PolicyPricer::tell() const {
  const Bytes counts(8.0 * model_.costs().model().experts);  // int64 (SGLang's deepep_waterfill.py)
  switch (profile_.tells) {
    case ExecutionProfile::Tells::kCounts:
      return model_.costs().over_all(CollectiveKind::kAllReduce, counts);
    case ExecutionProfile::Tells::kNothing:
      return {Seconds{}, Origin::kDeclared};
    default:
      return model_.costs().network().latency();
  }
}

void PolicyPricer::fill_layer(int l) {
  const LayerCosts& costs = model_.costs();
  for (int g = 0; g < cluster_.gpus(); ++g) {
    const auto i = static_cast<std::size_t>(g);
    const Price first = costs.experts(g, work_.first[i].rows, work_.first[i].touched);
    const Price then = costs.experts(g, work_.then[i].rows, work_.then[i].touched, work_.first[i].rows <= 0);
    first_.set(i, first);
    then_.set(i, then);
    layer_.experts.set(i, {first.time + then.time, first.origin});
  }
  model_.stats().load(l, work_.tokens, layer_.experts, 1.0);
  model_.shared_after(layer_.experts, shared_);
  if (profile_.dispatches_shared) {  // then they are among the routed ones
    shared_.assign(shared_.size(), {});
  }
  player_.set_layer(0, l,
                    {.layer = layer_,
                     .experts = then_,
                     .shared = shared_,
                     .first_experts = &first_,
                     .copies = &copy_,
                     .ids = planned_ ? tick_cost(tell()) : TickCost{},
                     .plan = planned_ ? tick_cost({options_.planning, Origin::kDeclared}) : TickCost{}});
}

StepCost PolicyPricer::price(const StepAt& at, std::span<const RankBatch> ranks) {
  model_.begin(at, ranks);
  reader_.set_dedup(model_.costs().dispatch().dedup);
  const std::vector<std::int64_t> by_rank =
      mapped(ranks, [&](const RankBatch& batch) { return batch.routed_tokens(); });
  model_.stats().step_of(std::accumulate(by_rank.begin(), by_rank.end(), std::int64_t{0}));
  gpu_tokens_ = tokens_by_gpu(by_rank, model_.costs().parallelism());
  player_.set_ranks(0, model_.ranks(), model_.ranks());
  for (int l = 0; l < model_.costs().model().moe_layers(); ++l) {
    decide(at.number, l);
    price_exchanges();
    model_.stats().bottlenecks(l, layer_);
    price_copies();
    fill_layer(l);
    if (recorder_ != nullptr) {
      record_exchanges(*recorder_, model_, l, 0, work_.tokens, layer_);
    }
  }
  return player_.play(model_.stats(), recorder_);
}

}  // namespace epsim
