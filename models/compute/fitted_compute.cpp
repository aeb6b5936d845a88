#include "models/compute/fitted_compute.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "models/profile/expert_price.h"
#include "models/profile/model_ops.h"
#include "sim/core/check.h"
#include "sim/core/fingerprint.h"

namespace epsim {
namespace {

constexpr std::size_t kKnownProducts = 4096;

// The hottest expert of a group, over the group's mean: see the header.
constexpr double kSkewExponent = 0.31;

}  // namespace

FittedCompute::FittedCompute(const FittedProfile& profile, const std::string& carried_over, const MoeSpec& model,
                             const GpuSpec& gpu, const Parallelism& parallelism)
    : attention_(model.attention),
      hidden_(model.hidden),
      routed_experts_(model.experts),
      top_k_(model.top_k),
      tensor_parallel_(parallelism.attention_tp),
      borrowed_(!carried_over.empty()) {
  for (const WeightsOf part : {WeightsOf::kAttention, WeightsOf::kOutput, WeightsOf::kFfn, WeightsOf::kUnquantised}) {
    dense_[static_cast<std::size_t>(part)] = take(profile, dense_op(model, part), gpu);
  }
  gate_ = take(profile, "gate", gpu);
  norm_ = take(profile, "norm", gpu);
  activation_ = take(profile, "activation", gpu);
  permute_ = take(profile, "permute", gpu);
  unpermute_ = take(profile, "unpermute", gpu);
  copy_ = take(profile, "device_copy", gpu);
  if (const auto experts = model.dense() ? std::nullopt : take(profile, experts_op(model), gpu)) {
    tabulate_experts(*experts, model);
    if (parallelism.ep_size() > 1) {
      ranks_ = experts->rank_terms(static_cast<double>(model.hidden), static_cast<double>(model.moe_intermediate));
    }
  }
  prefill_ = take(profile, prefill_op(model, profile), gpu);
  decode_ = take(profile, decode_op(model), gpu);
}

std::optional<FittedOp> FittedCompute::take(const FittedProfile& profile, const std::string& op,
                                            const GpuSpec& gpu) const {
  const FittedOp* found = profile.find(op);
  if (found == nullptr) {
    return std::nullopt;
  }
  const FlopsPerSecond peak = gpu.product_rate(dtype_of(op).type);
  if (peak.count() <= 0) {
    return std::nullopt;
  }
  FittedOp out = *found;
  out.rates.flops_per_s = peak.count();
  out.rates.bytes_per_s = gpu.memory_bandwidth.count();
  return out;
}

Price FittedCompute::experts(double rows, double touched, std::optional<double> tokens) const {
  PriceRow out;
  experts({&rows, 1}, {&touched, 1}, tokens, out);
  return out[0];
}

void FittedCompute::experts(std::span<const double> rows, std::span<const double> touched, std::optional<double> tokens,
                            PriceRow& out) const {
  (tokens ? of_tokens_ : of_rows_).at(rows, touched, tokens.value_or(0), out);
  if (!tokens || !ranks_) {
    return;
  }
  const double assignments = *tokens * top_k_;
  for (std::size_t g = 0; g < rows.size(); ++g) {
    if (rows[g] > 0) {
      const double each = rows[g] / std::max(1.0, touched[g]);
      out.seconds[g] = ranks_->time(Seconds(out.seconds[g]), each, assignments - rows[g]).count();
    }
  }
}

void FittedCompute::tabulate_experts(const FittedOp& op, const MoeSpec& model) {
  // No kernel is faster than the GPU's peak, nor than reading the weights, nor, where each row comes and goes by itself, than
  // reading and writing these in bf16, wherever a fit is taken to.
  const auto least = [&](double each, double groups) {
    const double rows = each * groups, columns = 3.0 * model.hidden * model.moe_intermediate;
    return Seconds(std::max(2 * columns * rows / op.rates.flops_per_s * (1 + 1e-9),
                            columns * op.rates.weight_bytes * groups / op.rates.bytes_per_s));
  };
  const auto moved = [&](double rows) { return Seconds(rows * 2 * model.hidden * 2.0 / op.rates.bytes_per_s); };
  const auto price = [&](double each, double groups, double tokens) {
    const ExpertRows rows{
        each,
        groups,
        each * std::pow(groups, kSkewExponent),  // of the experts at hand, however many are asked about
        static_cast<double>(model.hidden),
        static_cast<double>(model.moe_intermediate),
        tokens,
        static_cast<double>(model.experts)};
    return marked(expert_price(op, rows)) + permutation(each * groups);
  };
  of_rows_ = ExpertTable([&](double each, double groups) {
    return ExpertTable::Point{
        price(each, groups, each * groups), {}, std::max(least(each, groups), moved(each * groups))};
  });
  of_tokens_ = ExpertTable([&](double each, double groups) {
    const double tokens = each * groups;
    const Price once = price(each, groups, tokens);
    const Seconds more = price(each, groups, 2 * tokens).time - once.time;  // straight in tokens, of which no fit has 0
    return ExpertTable::Point{{once.time - more, once.origin}, more / tokens, least(each, groups)};
  });
}

Price FittedCompute::marked(Price price) const {
  return {price.time, borrowed_ ? weaker(price.origin, Origin::kExtrapolated) : price.origin};
}

Price FittedCompute::product(double rows, const WeightMatrix& matrix) const {
  if (rows <= 0 || matrix.n <= 0 || matrix.k <= 0) {
    return {};
  }
  known_.resize(kKnownProducts);
  const std::uint64_t hash = Fingerprint::mix(
      std::bit_cast<std::uint64_t>(rows) ^
      Fingerprint::mix(std::bit_cast<std::uint64_t>(matrix.n) + 3 * std::bit_cast<std::uint64_t>(matrix.k)));
  KnownProduct& known = known_[hash % kKnownProducts];
  if (known.rows != rows || known.matrix.n != matrix.n || known.matrix.k != matrix.k ||
      known.matrix.type != matrix.type) {
    known = {rows, matrix, new_product(rows, matrix)};
  }
  return known.price;
}

Price FittedCompute::new_product(double rows, const WeightMatrix& matrix) const {
  const std::optional<FittedOp>& own = dense_[static_cast<std::size_t>(matrix.type)];
  const FittedOp& op = own ? *own : *dense_.front();
  const Price price = marked(op.price(std::array{std::max(1.0, rows), matrix.n, matrix.k}));
  const Seconds peak(2 * rows * matrix.n * matrix.k / op.rates.flops_per_s);
  return {std::max(price.time, peak), price.origin};
}

std::vector<double> FittedCompute::attention_parameters(double batch, double length) const {
  const double heads = std::max(1.0, attention_.heads / tensor_parallel_);
  std::vector<double> out = {batch, length, heads};
  if (attention_.kind != AttentionKind::kMla) {
    const double kv_heads = std::max(1.0, attention_.kv_heads / tensor_parallel_);
    out.push_back(std::min(kv_heads, heads));
    out.push_back(static_cast<double>(attention_.head_dim));
  }
  return out;
}

std::optional<Price> FittedCompute::prefill(const RankBatch& batch) const {
  if (!prefill_ || batch.prefill_tokens <= 0 || batch.prefill_pairs <= 0) {
    return std::nullopt;
  }
  const auto tokens = static_cast<double>(batch.prefill_tokens);
  // Sequences of n tokens have n (n + 1) / 2 pairs. A chunk behind a long context is a part of one such sequence.
  const double length = std::max(1.0, 2 * batch.prefill_pairs / tokens - 1);
  const double sequences = tokens / length;
  Price price = prefill_->price(attention_parameters(std::max(1.0, sequences), length));
  if (sequences < 1) {
    const Price own = prefill_->price(attention_parameters(1, tokens));
    price.time = std::max(price.time * sequences, own.time);
  }
  return marked(price);
}

std::optional<Price> FittedCompute::price_of(const std::optional<FittedOp>& op,
                                             std::span<const double> parameters) const {
  return op ? std::optional(marked(op->price(parameters))) : std::nullopt;
}

std::optional<Price> FittedCompute::gate(double tokens) const {
  return price_of(gate_, std::array{std::max(1.0, tokens), hidden_, routed_experts_, top_k_});
}

std::optional<Price> FittedCompute::norm(double rows) const {
  return price_of(norm_, std::array{std::max(1.0, rows), hidden_});
}

std::optional<Price> FittedCompute::activation(double rows, double width) const {
  return price_of(activation_, std::array{std::max(1.0, rows), width});
}

std::optional<Price> FittedCompute::moved(Bytes read_and_written) const {
  return price_of(copy_, std::array{std::max(1.0, read_and_written.count() / 2)});  // a copy reads and writes each byte
}

// Rows as they arrive put in the order of the experts, and their outputs back: each row goes to one place. Kernels that
// permute themselves come from tables that measure no permutation apart.
Price FittedCompute::permutation(double rows) const {
  const std::array to_one_place{std::max(1.0, rows), hidden_, 1.0};
  return price_of(permute_, to_one_place).value_or(Price{}) + price_of(unpermute_, to_one_place).value_or(Price{});
}

std::optional<Price> FittedCompute::decode(const RankBatch& batch) const {
  if (!decode_ || batch.decode_tokens <= 0 || batch.decode_context <= 0) {
    return std::nullopt;
  }
  const double sequences = batch.decode_sequences();
  return marked(decode_->price(attention_parameters(sequences, std::max(1.0, batch.decode_context / sequences))));
}

}  // namespace epsim
