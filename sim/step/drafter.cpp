#include "sim/step/drafter.h"

#include <algorithm>

namespace epsim {
namespace {

constexpr int kInputKernels = 4;  // two norms, side by side, their product

// More is in the batch than a token of each sequence where a graph pads it.
RankBatch one_token_each(const RankBatch& step, int draft_tokens) {
  const std::int64_t captured = (step.decode_tokens + draft_tokens) / (1 + draft_tokens);
  const std::int64_t rows = std::max(step.sequences, captured);
  return {.decode_tokens = rows,
          .decode_context = step.decode_context + step.prefill_context + static_cast<double>(step.prefill_tokens),
          .sampled = rows,
          .sequences = step.sequences};
}

}  // namespace

int drafter_passes(const SpeculativeOptions& options, bool prompts) {
  if (options.drafter == DrafterKind::kNone || options.draft_tokens == 0) {
    return 0;
  }
  return prompts && !options.proposes_beside_prompts ? 1 : options.draft_tokens;
}

EagerWork drafter_launches(const MoeSpec& model, const Parallelism& parallelism, const DispatchOptions& dispatch,
                           int passes) {
  const EagerWork layer = eager_work(model.mtp_layer(), parallelism, dispatch);
  return {passes * (layer.launches + kInputKernels), passes * layer.waits};
}

Drafter::Drafter(const Scenario& s, const InstancePool& pool, const StepModel& model, const Placement& placement)
    : options_(pool.serving.speculative),
      loads_(model),
      experts_(std::make_unique<Placement>(placement.last_layer_alone())),
      layer_(std::make_unique<StepModel>(s.model.mtp_layer(), pool.cluster, pool.parallelism, pool.dispatch, *experts_,
                                         loads_, s.compute, s.network)) {}

void Drafter::set_placement(const Placement& placement) {
  auto next = std::make_unique<Placement>(placement.last_layer_alone());
  layer_->set_placement(*next);
  experts_ = std::move(next);
}

void Drafter::LastLayerLoads::draw(const StepAt&, std::span<const std::int64_t>, StepLoads& out) const {
  const StepLoads& drawn = model_.loads();
  out.resize(layers(), drawn.sources, drawn.experts);
  out.counted = drawn.counted;
  for (int source = 0; source < drawn.sources * layers(); ++source) {
    std::ranges::copy(drawn.row(drawn.layers - 1, source), out.row(0, source).begin());
  }
}

void Drafter::add_pass(const StepAt& at, std::span<const RankBatch> ranks, int times, StepCost& sum) {
  StepCost pass = layer_->price(at, ranks);
  const Price input = layer_->costs().mtp_input(ranks);
  pass.total += input.time;
  pass.by_origin[static_cast<std::size_t>(input.origin)] += input.time;
  pass.by_part = {};
  pass.by_part[static_cast<std::size_t>(LayerPart::kDrafter)] = pass.total;
  for (int i = 0; i < times; ++i) {
    add_cost(sum, pass);
  }
}

StepCost Drafter::price(const StepAt& at, std::span<const RankBatch> ranks) {
  StepCost sum;
  pass_.assign(ranks.begin(), ranks.end());
  for (RankBatch& batch : pass_) {
    batch.sampled = batch.sequences;  // the head sees the last row of each
  }
  add_pass(at, pass_, 1, sum);
  const int others = drafter_passes(options_, kind_of(ranks) != StepKind::kDecode) - 1;
  if (others > 0) {
    std::ranges::transform(ranks, pass_.begin(),
                           [&](const RankBatch& batch) { return one_token_each(batch, options_.draft_tokens); });
    add_pass(at, pass_, others, sum);
  }
  return sum;
}

}  // namespace epsim
