#include "sim/step/event_pricer.h"

#include <algorithm>

namespace epsim {
namespace {

using Kind = StepTask::Kind;

}  // namespace

RankBatch half_of(const RankBatch& batch, int half) {
  const auto part = [half](std::int64_t n) { return half == 0 ? (n + 1) / 2 : n / 2; };
  RankBatch out;
  out.prefill_tokens = part(batch.prefill_tokens);
  // Odd numbers of both kinds give their spare tokens to different halves.
  out.decode_tokens = half == 0 ? batch.decode_tokens / 2 : (batch.decode_tokens + 1) / 2;
  out.prefill_pairs = batch.prefill_pairs / 2;
  out.prefill_context = batch.prefill_context / 2;
  out.decode_context = batch.decode_context / 2;
  out.sampled = part(batch.sampled);
  return out;
}

EventPricer::EventPricer(StepModel& model, const ExecutionOptions& options)
    : model_(model), options_(options), report_(model.costs().model().moe_layers(), model.costs().parallelism().gpus) {
  const bool halves = options.overlap == StepOverlap::kTwoBatch;
  const StepOverlap whole = halves ? StepOverlap::kNone : options.overlap;
  const auto slow = [&](StepOverlap overlap) {
    return overlap == StepOverlap::kNone ? std::vector<LaneSlowdown>{} : slowdowns_of_kernels(options);
  };
  whole_ = std::make_unique<Played>(build_step_graph(model, options.sync, whole), slow(whole));
  if (halves) {
    const auto in_halves = [&](bool decode) {
      return std::make_unique<Played>(build_step_graph(model, options.sync, options.overlap, decode),
                                      slow(options.overlap));
    };
    halves_ = in_halves(false);
    decode_halves_ = in_halves(true);
  }
}

// All ranks take part in every exchange, so either all run in halves or none does: every busy rank must have two tokens
// to divide, and the fullest as many as the scenario asks for.
EventPricer::Played& EventPricer::graph_for(std::span<const RankBatch> ranks) {
  if (halves_ == nullptr) {
    return *whole_;
  }
  std::int64_t most = 0;
  bool prompts = false;
  for (const RankBatch& batch : ranks) {
    prompts = prompts || batch.prefill_tokens > 0;
    if (batch.tokens() == 1) {
      return *whole_;
    }
    most = std::max(most, batch.tokens());
  }
  if (most < options_.two_batch_min_tokens) {
    return *whole_;
  }
  return prompts ? *halves_ : *decode_halves_;
}

void EventPricer::fill_layer(const StepGraph& graph, int batch, int l, TaskTimes& times) {
  const MoeLayerCost& cost = model_.layer(l);
  if (options_.sync == StepSync::kPairwise) {
    ports_.price(model_);
  }
  const std::vector<TaskId>& tasks =
      graph.of_layer[static_cast<std::size_t>(batch * model_.costs().model().moe_layers() + l)];
  for (const TaskId t : tasks) {
    const StepTask& task = graph.tasks[static_cast<std::size_t>(t)];
    switch (task.kind) {
      case Kind::kCounts:
        times.set(t, cost.counts);
        break;
      case Kind::kDispatch:
        times.set(t, cost.dispatch, cost.dispatch_straggler);
        break;
      case Kind::kCombine:
        times.set(t, cost.combine, cost.combine_straggler);
        break;
      case Kind::kExperts:
        times.set(t, tick_cost(cost.experts[static_cast<std::size_t>(task.index)]));
        break;
      default:
        times.set(t, ports_.cost(task));
    }
  }
  if (recorder_ != nullptr) {
    record_exchanges(*recorder_, model_, l, batch, model_.traffic(), cost);
  }
}

void EventPricer::fill(Played& played, int batch, const StepAt& at, std::span<const RankBatch> ranks) {
  const StepGraph& graph = played.step;
  model_.begin(at, ranks, graph.batches);
  played.times.set_ranks(graph, batch, model_.ranks(), graph.batches > 1 ? full_ : model_.ranks());
  for (int l = 0; l < model_.costs().model().moe_layers(); ++l) {
    fill_layer(graph, batch, l, played.times);
  }
}

StepCost EventPricer::price(const StepAt& at, std::span<const RankBatch> ranks) {
  Played& played = graph_for(ranks);
  const StepGraph& graph = played.step;
  if (graph.batches == 1) {
    fill(played, 0, at, ranks);
  } else {
    model_.costs().ranks(ranks, full_);
    for (int b = 0; b < 2; ++b) {
      half_.clear();
      for (const RankBatch& batch : ranks) {
        half_.push_back(half_of(batch, b));
      }
      fill(played, b, at, half_);
    }
  }
  played.run.run(played.times.duration);
  if (recorder_ != nullptr) {
    record_spans(graph, played.run, *recorder_);
  }
  model_.stats().end_step();
  return report_.cost(graph, played.run, played.times, model_.stats());
}

}  // namespace epsim
