#include "sim/step/policy_pricer.h"

#include <algorithm>
#include <numeric>

#include "sim/core/check.h"
#include "sim/step/policy_graph.h"
#include "sim/step/step_routing.h"

namespace epsim {
namespace {

using Kind = StepTask::Kind;

std::vector<LaneSlowdown> slowdowns_of(const ExecutionOptions& execution) {
  constexpr auto network = static_cast<std::int16_t>(StepLane::kNetwork),
                 copy = static_cast<std::int16_t>(StepLane::kCopy);
  std::vector<LaneSlowdown> out = slowdowns_of_kernels(execution);
  out.push_back({network, copy, 0.5});
  out.push_back({copy, network, 0.5});
  return out;
}

}  // namespace

PolicyPricer::PolicyPricer(StepModel& model, const StepPolicy& policy, const ClusterSpec& cluster,
                           const ExecutionOptions& execution, const StepPolicyRun& options, const LoadWindow& stale,
                           Seed seed)
    : model_(model),
      policy_(policy),
      cluster_(cluster),
      options_(options),
      profile_(policy.profile()),
      stale_(stale),
      seed_(seed),
      home_(Residency::contiguous(model.costs().model().experts, cluster.gpus())),
      reader_(shape_of(cluster), model.costs().dispatch().dedup, profile_),
      graph_(build_policy_graph(model, profile_)),
      run_(std::make_unique<TaskRun>(graph_.graph, slowdowns_of(execution))),
      times_(graph_.tasks.size()),
      report_(model.costs().model().moe_layers(), cluster.gpus()) {
  const auto gpus = static_cast<std::size_t>(cluster.gpus());
  first_.resize(gpus);
  then_.resize(gpus);
  copy_.resize(gpus);
}

// The same draws for every policy of a comparison: the stream knows the step and the layer alone. Nothing is known of
// the first layer when its copies would have to start.
void PolicyPricer::decide(std::int64_t step, int l) {
  RandomStream random(seed_, "step-policy", static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(l));
  const RequestMatrix requests =
      draw_requests(model_.loads(), l, model_.costs().parallelism(), gpu_tokens_, model_.costs().model().top_k, random);
  const RequestMatrix predicted = l == 0 ? RequestMatrix(requests.gpus, requests.experts)
                                         : predict(requests, stale_.layer(l), options_.predictor, random);
  const StepDecision decision = policy_.decide(requests, predicted, home_);
  EPSIM_CHECK(decision.tokens.total() == requests.total(), "a policy has every assignment executed once");
  reader_.read(requests, decision, home_, gpu_tokens_, work_);
  model_.stats().routed(static_cast<double>(requests.total()));
}

// A collective of all GPUs on what every rank brings, padded to the largest.
Price PolicyPricer::gather(CollectiveKind kind, Bytes row) const {
  const double most = static_cast<double>(*std::max_element(gpu_tokens_.begin(), gpu_tokens_.end()));
  return model_.costs().network().over_all(kind, row * (most * static_cast<double>(gpu_tokens_.size())));
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
    std::fill(copy_.begin(), copy_.end(), Price{});
    return;
  }
  network.count(work_.weights, expert, model_.stats().link_bytes());
  const Network::PortWires wires = network.port_wires(work_.weights, expert);
  const Seconds busiest_source = *std::max_element(wires.out.begin(), wires.out.end());
  for (std::size_t g = 0; g < copy_.size(); ++g) {
    const Seconds wire = wires.in[g].count() > 0 ? std::max(wires.in[g], busiest_source) : Seconds{};
    copy_[g] = {wire / options_.copy_efficiency, Origin::kExtrapolated};
  }
}

TickCost PolicyPricer::cost_of_task(const StepTask& task) {
  const auto index = static_cast<std::size_t>(task.index);
  switch (task.kind) {
    case Kind::kIds:
      return tick_cost(model_.costs().network().latency());
    case Kind::kPlan:
      return tick_cost({options_.planning, Origin::kDeclared});
    case Kind::kCopied:  // takes no time: the moment when all copies of a layer have arrived
      return {};
    case Kind::kCounts:
      return layer_.counts;
    case Kind::kDispatch:
      return layer_.dispatch;
    case Kind::kCombine:
      return layer_.combine;
    case Kind::kFirstExperts:
      return tick_cost(first_[index]);
    case Kind::kExperts:
      return tick_cost(then_[index]);
    case Kind::kCopy:
      return tick_cost(copy_[index]);
    default:
      EPSIM_CHECK(false, "no such task under a policy that acts in every step");
      return {};
  }
}

void PolicyPricer::fill_layer(int l) {
  for (int g = 0; g < cluster_.gpus(); ++g) {
    const auto i = static_cast<std::size_t>(g);
    first_[i] = model_.costs().experts(g, work_.first[i].rows, work_.first[i].touched);
    then_[i] = model_.costs().experts(g, work_.then[i].rows, work_.then[i].touched);
    layer_.experts.set(i, {first_[i].time + then_[i].time, first_[i].origin});
  }
  model_.stats().load(l, work_.tokens, layer_.experts, 1.0);
  for (const TaskId t : graph_.of_layer[static_cast<std::size_t>(l)]) {
    const StepTask& task = graph_.tasks[static_cast<std::size_t>(t)];
    const Seconds waiting = task.kind == Kind::kDispatch  ? layer_.dispatch_straggler
                            : task.kind == Kind::kCombine ? layer_.combine_straggler
                                                          : Seconds{};
    times_.set(t, cost_of_task(task), waiting);
  }
}

StepCost PolicyPricer::price(const StepAt& at, std::span<const RankBatch> ranks) {
  model_.begin(at, ranks);
  reader_.set_dedup(model_.costs().dispatch().dedup);
  std::vector<std::int64_t> by_rank;
  for (const RankBatch& batch : ranks) {
    by_rank.push_back(batch.tokens());
  }
  gpu_tokens_ = tokens_by_gpu(by_rank, model_.costs().parallelism());
  times_.set_ranks(graph_, 0, model_.ranks(), model_.ranks());
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
  run_->run(times_.duration);
  if (recorder_ != nullptr) {
    record_spans(graph_, *run_, *recorder_);
  }
  model_.stats().end_step();
  return report_.cost(graph_, *run_, times_, model_.stats());
}

}  // namespace epsim
