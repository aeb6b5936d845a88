#include "sim/step/event_pricer.h"

#include <algorithm>

namespace epsim {
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
  out.decode_queries = batch.decode_queries;
  return out;
}

EventPricer::EventPricer(StepModel& model, const ExecutionOptions& options) : model_(model), options_(options) {
  const auto player = [&](StepOverlap overlap, bool decode) {
    return std::make_unique<StepPlayer>(
        model, order_of(overlap, decode),
        overlap == StepOverlap::kNone ? std::vector<LaneSlowdown>{} : slowdowns_of_kernels(options), options.sync);
  };
  const bool halves = options.overlap == StepOverlap::kTwoBatch;
  whole_ = player(halves ? StepOverlap::kNone : options.overlap, false);
  if (halves) {
    halves_ = player(options.overlap, false);
    decode_halves_ = player(options.overlap, true);
  }
}

// All ranks take part in every exchange, so either all run in halves or none does: every busy rank must have two tokens
// to divide, and the fullest as many as the scenario asks for.
StepPlayer& EventPricer::player_for(std::span<const RankBatch> ranks) {
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

void EventPricer::fill(StepPlayer& player, int batch, const StepAt& at, std::span<const RankBatch> ranks) {
  StepAt here = at;  // where the order of stages says what runs beside what, that holds
  here.shared_beside = at.shared_beside && options_.overlap == StepOverlap::kNone;
  model_.begin(here, ranks, player.batches());
  player.set_ranks(batch, model_.ranks(), player.batches() > 1 ? full_ : model_.ranks());
  for (int l = 0; l < model_.costs().model().moe_layers(); ++l) {
    const MoeLayerCost& cost = model_.layer(l);
    if (options_.sync == StepSync::kPairwise) {
      ports_.price(model_);
    }
    model_.shared_after(cost.experts, shared_);
    player.set_layer(batch, l, {.layer = cost, .experts = cost.experts, .shared = shared_, .ports = &ports_});
    if (recorder_ != nullptr) {
      record_exchanges(*recorder_, model_, l, batch, model_.traffic(), cost);
    }
  }
}

StepCost EventPricer::price(const StepAt& at, std::span<const RankBatch> ranks) {
  StepPlayer& player = player_for(ranks);
  if (player.batches() == 1) {
    fill(player, 0, at, ranks);
  } else {
    model_.costs().ranks(ranks, full_);
    for (int b = 0; b < 2; ++b) {
      half_.clear();
      for (const RankBatch& batch : ranks) {
        half_.push_back(half_of(batch, b));
      }
      fill(player, b, at, half_);
    }
  }
  StepCost out = player.play(model_.stats(), recorder_);
  out.batches = player.batches();
  return out;
}

}  // namespace epsim
