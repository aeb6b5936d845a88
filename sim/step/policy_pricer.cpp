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
      home_(Residency::contiguous(model.parts().model().experts, cluster.gpus())),
      reader_(shape_of(cluster), model.parts().dispatch().dedup, profile_),
      graph_(build_policy_graph(model, profile_)),
      run_(std::make_unique<TaskRun>(graph_.graph, slowdowns_of(execution))),
      times_(graph_.tasks.size()),
      report_(model.parts().model().moe_layers(), cluster.gpus()) {
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
      draw_requests(model_.loads(), l, model_.parts().parallelism(), gpu_tokens_, model_.parts().model().top_k, random);
  const RequestMatrix predicted = l == 0 ? RequestMatrix(requests.gpus, requests.experts)
                                         : predict(requests, stale_.layer(l), options_.predictor, random);
  const StepDecision decision = policy_.decide(requests, predicted, home_);
  EPSIM_CHECK(decision.tokens.total() == requests.total(), "a policy has every assignment executed once");
  reader_.read(requests, decision, home_, gpu_tokens_, work_);
  model_.tally().routed(static_cast<double>(requests.total()));
}

// A collective of all GPUs on what every rank brings, padded to the largest.
Price PolicyPricer::gather(CollectiveKind kind, Bytes row) const {
  const double most = static_cast<double>(*std::max_element(gpu_tokens_.begin(), gpu_tokens_.end()));
  return model_.parts().network().over_all(kind, row * (most * static_cast<double>(gpu_tokens_.size())));
}

void PolicyPricer::price_exchanges() {
  const StepParts& parts = model_.parts();
  parts.layer(work_.tokens, model_.tally().link_bytes(), parts_);
  if (profile_.dispatch == ExecutionProfile::Dispatch::kAllGather) {
    parts_.dispatch = piece_of(gather(CollectiveKind::kAllGather, parts.dispatch_row()));
    parts_.combine = piece_of(gather(CollectiveKind::kReduceScatter, parts.combine_row()));
    parts_.dispatch_straggler = parts_.combine_straggler = Seconds{};
    parts_.dispatch_bottleneck = parts_.combine_bottleneck = -1;  // every port carries the same
  }
}

void PolicyPricer::price_copies() {
  const StepParts& parts = model_.parts();
  const Network& network = parts.network();
  const Bytes expert = parts.model().expert_bytes();
  if (work_.copies == 0) {
    std::fill(copy_.begin(), copy_.end(), Price{});
    return;
  }
  network.count(work_.weights, expert, model_.tally().link_bytes());
  const Network::PortWires wires = network.port_wires(work_.weights, expert);
  const Seconds busiest_source = *std::max_element(wires.out.begin(), wires.out.end());
  for (std::size_t g = 0; g < copy_.size(); ++g) {
    const Seconds wire = wires.in[g].count() > 0 ? std::max(wires.in[g], busiest_source) : Seconds{};
    copy_[g] = {wire / options_.copy_efficiency, Origin::kExtrapolated};
  }
}

Piece PolicyPricer::piece_of_layer(const StepTask& task) {
  const auto index = static_cast<std::size_t>(task.index);
  switch (task.kind) {
    case Kind::kIds:
      return piece_of(model_.parts().network().latency());
    case Kind::kPlan:
      return piece_of({options_.planning, Origin::kDeclared});
    case Kind::kCopied:  // takes no time: the moment when all copies of a layer have arrived
      return {};
    case Kind::kCounts:
      return parts_.counts;
    case Kind::kDispatch:
      return parts_.dispatch;
    case Kind::kCombine:
      return parts_.combine;
    case Kind::kFirstExperts:
      return piece_of(first_[index]);
    case Kind::kExperts:
      return piece_of(then_[index]);
    case Kind::kCopy:
      return piece_of(copy_[index]);
    default:
      EPSIM_CHECK(false, "no such task under a policy that acts in every step");
      return {};
  }
}

void PolicyPricer::fill_layer(int l) {
  for (int g = 0; g < cluster_.gpus(); ++g) {
    const auto i = static_cast<std::size_t>(g);
    first_[i] = model_.parts().experts(g, work_.first[i].rows, work_.first[i].touched);
    then_[i] = model_.parts().experts(g, work_.then[i].rows, work_.then[i].touched);
    parts_.experts.set(i, {first_[i].time + then_[i].time, first_[i].origin});
  }
  model_.tally().load(l, work_.tokens, parts_.experts, 1.0);
  for (const TaskId t : graph_.of_layer[static_cast<std::size_t>(l)]) {
    const StepTask& task = graph_.tasks[static_cast<std::size_t>(t)];
    const Seconds waiting = task.kind == Kind::kDispatch  ? parts_.dispatch_straggler
                            : task.kind == Kind::kCombine ? parts_.combine_straggler
                                                          : Seconds{};
    times_.set(t, piece_of_layer(task), waiting);
  }
}

StepCost PolicyPricer::price(const StepAt& at, std::span<const RankBatch> ranks) {
  model_.begin(at, ranks);
  reader_.set_dedup(model_.parts().dispatch().dedup);
  std::vector<std::int64_t> by_rank;
  for (const RankBatch& batch : ranks) {
    by_rank.push_back(batch.tokens());
  }
  gpu_tokens_ = tokens_by_gpu(by_rank, model_.parts().parallelism());
  times_.set_ranks(graph_, 0, model_.ranks(), model_.ranks());
  for (int l = 0; l < model_.parts().model().moe_layers(); ++l) {
    decide(at.number, l);
    price_exchanges();
    model_.tally().bottlenecks(l, parts_);
    price_copies();
    fill_layer(l);
    if (recorder_ != nullptr) {
      tell_exchanges(*recorder_, model_, l, 0, work_.tokens, parts_);
    }
  }
  run_->run(times_.duration);
  if (recorder_ != nullptr) {
    record_spans(graph_, *run_, *recorder_);
  }
  model_.tally().end_step();
  return report_.cost(graph_, *run_, times_, model_.tally());
}

}  // namespace epsim
