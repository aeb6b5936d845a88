#include "models/compute/roofline.h"

#include <algorithm>
#include <cmath>

namespace epsim {
namespace {

Price longer(const Price& a, const Price& b) { return a.time >= b.time ? a : b; }

// Rows per expert from 1 to 2^20, eight steps to an octave: a step is 9 %, and the measured shares change by less.
constexpr int kGroupedOctaves = 20;
constexpr int kStepsPerOctave = 8;

// Kernels of an expert layer: gate_up GEMM, activation, down GEMM, and the permutation before and after.
constexpr int kExpertKernels = 5;
// Input norm, rotary embedding and KV write, residual and norm after attention.
constexpr int kNormKernels = 3;
constexpr int kNormKernelsBefore = 2;  // of them ahead of the scores
// Router scores to top-k ids and weights.
constexpr int kGateKernels = 1;

// The weight matrices of one layer's attention on one GPU of `tp`.
std::vector<WeightMatrix> attention_matrices(const MoeSpec& model, double tp) {
  const AttentionSpec& a = model.attention;
  const double hidden = model.hidden, heads = a.heads / tp;
  if (a.kind == AttentionKind::kMla) {
    const double query_in = a.q_lora_rank > 0 ? a.q_lora_rank : hidden;
    return {{static_cast<double>(a.q_lora_rank + a.kv_lora_rank + a.qk_rope_head_dim), hidden},
            {heads * (a.qk_nope_head_dim + a.qk_rope_head_dim), query_in},
            {heads * (a.qk_nope_head_dim + a.v_head_dim), static_cast<double>(a.kv_lora_rank)},
            {hidden, heads * a.v_head_dim}};
  }
  const double kv_heads = std::max(1.0, a.kv_heads / tp);
  return {{(heads + 2 * kv_heads) * a.head_dim, hidden}, {hidden, heads * a.head_dim}};
}

// The share of each that is multiplied ahead of the scores. With MLA the queries take in the key half of the latents'
// expansion before (the absorbed form), and the values' half comes behind.
std::vector<double> shares_before_scores(const AttentionSpec& a) {
  if (a.kind == AttentionKind::kMla) {
    return {1, 1, static_cast<double>(a.qk_nope_head_dim) / (a.qk_nope_head_dim + a.v_head_dim), 0};
  }
  return {1, 0};
}

}  // namespace

ComputeModel::ComputeModel(const MoeSpec& model, const GpuSpec& gpu, const Parallelism& parallelism,
                           ComputeProfile profile)
    : model_(model),
      gpu_(gpu),
      parallelism_(parallelism),
      profile_(std::move(profile)),
      flops_per_row_(6.0 * model.hidden * model.moe_intermediate),
      expert_bytes_(model.expert_bytes()),
      weight_rate_(gpu.memory_bandwidth * profile_.weight_read.value) {
  attention_matrices_ = attention_matrices(model, parallelism.attention_tp);
  before_scores_ = shares_before_scores(model.attention);
  if (profile_.fitted != nullptr) {
    fitted_.emplace(*profile_.fitted, profile_.carried_over, model, gpu, parallelism);
  }
  for (int i = 0; i <= kGroupedOctaves * kStepsPerOctave; ++i) {
    const Efficiency share =
        profile_.grouped(model.hidden, model.moe_intermediate, std::exp2(static_cast<double>(i) / kStepsPerOctave));
    // Between measured points and the table's own steps the rate is interpolated.
    grouped_rates_.push_back({(gpu.bf16_peak * share.fraction).count(), weaker(share.origin, Origin::kInterpolated)});
  }
}

// A dense product of `rows` rows with a weight matrix: never faster than the curve's share of the peak, nor than
// reading the weights. The curve's origin is that of its points; between them the price is interpolated.
Price ComputeModel::gemm(double rows, Bytes weights) const {
  if (rows <= 0 || weights.count() <= 0) {
    return {};
  }
  const Efficiency share = profile_.dense_gemm.at(rows);
  const Flops work(2.0 * rows * weights.count() / model_.bytes_per_weight);
  const Price compute{work / (gpu_.bf16_peak * share.fraction), share.origin};
  const Price read{weights / (gpu_.memory_bandwidth * profile_.memory_bound.value), profile_.memory_bound.origin};
  return longer(compute, read);
}

Price ComputeModel::memory_bound(Bytes moved, int kernels) const {
  if (const std::optional<Price> each = fitted_ ? fitted_->moved(moved / kernels) : std::nullopt) {
    return {each->time * kernels, each->origin};
  }
  const Seconds time =
      moved / (gpu_.memory_bandwidth * profile_.memory_bound.value) + Seconds(profile_.kernel_constant.value * kernels);
  return {time, weaker(profile_.memory_bound.origin, profile_.kernel_constant.origin)};
}

// Kernels like a norm, each of which reads and writes every token once.
Price ComputeModel::norms(double tokens, int kernels) const {
  if (const std::optional<Price> each = fitted_ ? fitted_->norm(tokens) : std::nullopt) {
    return {each->time * kernels, each->origin};
  }
  return memory_bound(Bytes(tokens * model_.hidden * model_.bytes_per_weight * 2.0 * kernels), kernels);
}

Price ComputeModel::projections(double tokens) const {
  if (!fitted_ || !fitted_->has_dense()) {
    return gemm(tokens, model_.attention_replicated_bytes()) +
           gemm(tokens, model_.attention_split_bytes() / parallelism_.attention_tp);
  }
  Price total;
  for (const WeightMatrix& matrix : attention_matrices_) {
    total = total + fitted_->product(tokens, matrix);
  }
  return total;
}

Price ComputeModel::projections_before_scores(double tokens) const {
  Price total;
  double before = 0, all = 0;
  for (std::size_t i = 0; i < attention_matrices_.size(); ++i) {
    const double weights = attention_matrices_[i].n * attention_matrices_[i].k;
    before += weights * before_scores_[i];
    all += weights;
    if (fitted_ && fitted_->has_dense() && before_scores_[i] > 0) {
      const Price whole = fitted_->product(tokens, attention_matrices_[i]);
      total = total + Price{whole.time * before_scores_[i], whole.origin};
    }
  }
  if (fitted_ && fitted_->has_dense()) {
    return total;
  }
  const Price whole = projections(tokens);
  return {whole.time * (before / all), whole.origin};
}

// The cached latents of the chunks' context are expanded to keys and values (MLA alone).
Price ComputeModel::context_expansion(double tokens) const {
  const AttentionSpec& a = model_.attention;
  if (a.kind != AttentionKind::kMla || tokens <= 0) {
    return {};
  }
  const double columns = static_cast<double>(a.heads) / parallelism_.attention_tp * (a.qk_nope_head_dim + a.v_head_dim);
  if (fitted_ && fitted_->has_dense()) {
    return fitted_->product(tokens, {columns, static_cast<double>(a.kv_lora_rank)});
  }
  return gemm(tokens, Bytes(a.kv_lora_rank * columns * model_.bytes_per_weight));
}

// Scores and values: 2 flops a multiply-add, per query-key pair and head.
Price ComputeModel::prefill_scores(const RankBatch& batch) const {
  if (batch.prefill_pairs <= 0) {
    return {};
  }
  const AttentionSpec& a = model_.attention;
  const double heads = static_cast<double>(a.heads) / parallelism_.attention_tp;
  const double pair_width =
      a.kind == AttentionKind::kMla ? a.qk_nope_head_dim + a.qk_rope_head_dim + a.v_head_dim : 2.0 * a.head_dim;
  const Flops work(2.0 * batch.prefill_pairs * heads * pair_width);
  if (const std::optional<Price> price = fitted_ ? fitted_->prefill(batch) : std::nullopt) {
    return {std::max(price->time, work / gpu_.bf16_peak), price->origin};
  }
  return {work / (gpu_.bf16_peak * profile_.attention_prefill.value), profile_.attention_prefill.origin};
}

// Decode in the absorbed form for MLA: the latents are read once for all heads.
Price ComputeModel::decode_scores(const RankBatch& batch) const {
  if (batch.decode_context <= 0) {
    return {};
  }
  if (const std::optional<Price> price = fitted_ ? fitted_->decode(batch) : std::nullopt) {
    return *price;
  }
  const Bytes cached = model_.kv_bytes_per_token(parallelism_.attention_tp) / model_.layers * batch.decode_context;
  return {cached / (gpu_.memory_bandwidth * profile_.attention_decode.value), profile_.attention_decode.origin};
}

Price ComputeModel::attention(const RankBatch& batch) const {
  const auto tokens = static_cast<double>(batch.tokens());
  if (tokens <= 0) {
    return {};
  }
  const Price total =
      projections(tokens) + context_expansion(batch.prefill_context) + prefill_scores(batch) + decode_scores(batch);
  return total + norms(tokens, kNormKernels);
}

Price ComputeModel::before_scores(const RankBatch& batch) const {
  const auto tokens = static_cast<double>(batch.tokens());
  if (tokens <= 0) {
    return {};
  }
  return projections_before_scores(tokens) + norms(tokens, kNormKernelsBefore);
}

Price ComputeModel::gate(std::int64_t tokens) const {
  if (tokens <= 0) {
    return {};
  }
  const double here = static_cast<double>(tokens) / parallelism_.attention_tp;
  if (const std::optional<Price> whole = fitted_ ? fitted_->gate(here) : std::nullopt) {
    return *whole;
  }
  const Bytes scores(here * model_.experts * 4.0);  // float32
  const bool fits = fitted_ && fitted_->has_dense();
  const Price router = fits ? fitted_->product(here, {static_cast<double>(model_.experts), 1.0 * model_.hidden}, true)
                            : gemm(here, model_.router_bytes());
  return router + memory_bound(scores, kGateKernels);
}

// An FFN with gate, up and down: split over the tensor-parallel group, every GPU works on all tokens; replicated, on
// its own share of them.
Price ComputeModel::ffn(std::int64_t tokens, double intermediate, Sharding sharding) const {
  if (tokens <= 0 || intermediate <= 0) {
    return {};
  }
  const double tp = parallelism_.attention_tp, hidden = model_.hidden;
  const bool split = sharding == Sharding::kTensorParallel;
  const double rows = split ? static_cast<double>(tokens) : static_cast<double>(tokens) / tp;
  const double width = split ? intermediate / tp : intermediate;
  const Bytes activation(width * rows * 3.0 * model_.bytes_per_weight);  // two inputs, one output, per column
  const bool fits = fitted_ && fitted_->has_dense();
  const Price products = fits ? fitted_->product(rows, {2 * width, hidden}) + fitted_->product(rows, {hidden, width})
                              : gemm(rows, Bytes(3.0 * hidden * width * model_.bytes_per_weight));
  return products + (fitted_ ? fitted_->activation(rows, width) : std::nullopt).value_or(memory_bound(activation, 1));
}

Price ComputeModel::shared_expert(std::int64_t tokens) const {
  return ffn(tokens, model_.shared_intermediate, parallelism_.shared_experts);
}
Price ComputeModel::dense_ffn(std::int64_t tokens) const {
  return ffn(tokens, model_.dense_intermediate, parallelism_.dense_ffn);
}

Price ComputeModel::experts(double rows, double touched) const {
  if (rows <= 0) {
    return {};
  }
  if (fitted_ && fitted_->has_experts()) {
    return fitted_->experts().at(rows, touched);
  }
  // Position in the table without a logarithm: the exponent gives the octave, the mantissa runs almost straight in it.
  int octave = 0;
  const double mantissa = std::frexp(std::max(1.0, rows / std::max(touched, 1e-9)), &octave);  // in [0.5, 1)
  const double place = std::min((octave - 1 + 2.0 * mantissa - 1.0) * kStepsPerOctave,
                                static_cast<double>(grouped_rates_.size() - 1) - 1e-9);
  const auto below = static_cast<std::size_t>(place);
  const GroupedRate& a = grouped_rates_[below];
  const GroupedRate& b = grouped_rates_[below + 1];
  const double rate = a.flops_per_s + (b.flops_per_s - a.flops_per_s) * (place - static_cast<double>(below));
  const Seconds compute = flops_per_row_ * rows / FlopsPerSecond(rate);
  const Seconds read = expert_bytes_ * touched / weight_rate_;
  const Origin origin = compute >= read ? weaker(a.origin, b.origin) : profile_.weight_read.origin;
  return {std::max(compute, read) + Seconds(profile_.kernel_constant.value * kExpertKernels), origin};
}

void ComputeModel::experts(std::span<const double> rows, std::span<const double> touched, PriceRow& out) const {
  if (fitted_ && fitted_->has_experts()) {
    fitted_->experts().at(rows, touched, out);
    return;
  }
  out.resize(rows.size());
  out.origin_at = kOriginsThemselves.data();
  for (std::size_t g = 0; g < rows.size(); ++g) {
    out.set(g, experts(rows[g], touched[g]));
  }
}

Price ComputeModel::head(std::int64_t sampled) const {
  if (sampled <= 0) {
    return {};
  }
  const double tp = parallelism_.embedding == Sharding::kTensorParallel ? parallelism_.attention_tp : 1.0;
  const Bytes matrix(static_cast<double>(model_.vocab) * model_.hidden * model_.bytes_per_weight / tp);
  const Bytes logits(static_cast<double>(sampled) * model_.vocab * 4.0);  // float32, gathered before sampling
  const auto rows = static_cast<double>(sampled);
  const bool fits = fitted_ && fitted_->has_dense();
  const Price product =
      fits ? fitted_->product(rows, {model_.vocab / tp, 1.0 * model_.hidden}, true) : gemm(rows, matrix);
  return product + memory_bound(logits, 1);
}

}  // namespace epsim
