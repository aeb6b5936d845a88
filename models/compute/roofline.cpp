#include "models/compute/roofline.h"

#include <algorithm>
#include <cmath>

#include "models/compute/attention_reach.h"

namespace epsim {
namespace {

// Of the peak, where decodes are bound by their products: FlashMLA's 660 of an H800's 989 TF/s (deepseek-ai/FlashMLA).
constexpr double kDecodeProducts = 660.0 / 989.0;

Price longer(const Price& a, const Price& b) { return a.time >= b.time ? a : b; }
Price times(const Price& price, double factor) { return {price.time * factor, price.origin}; }
Price extrapolated(const Price& price) { return {price.time, weaker(price.origin, Origin::kExtrapolated)}; }

// Rows per expert from 1 to 2^20, eight even steps to an octave: a step is 6 to 12 %, and the measured shares change by
// less.
constexpr int kGroupedOctaves = 20;
constexpr int kStepsPerOctave = 8;

// Kernels of an expert layer: gate_up GEMM, activation, down GEMM, and the permutation before and after.
constexpr int kExpertKernels = 5;
// Norms before attention and before the FFN. Each adds the residual first: two rows read for every token, two written.
constexpr int kResidualNorms = 2;
constexpr double kResidualNormRows = 2;
constexpr double kBf16Bytes = 2;  // of activations, whatever the weights
// Router scores to top-k ids and weights.
constexpr int kGateKernels = 1;
constexpr int kMtpNorms = 2;  // of the embedding and of the hidden state
// Of linear attention: the convolution, the delta rule, the gated norm of its output.
constexpr int kLinearKernels = 3;
// Tokens that the delta rule works on at once, in flash-linear-attention's kernels; what prompts add to those kernels
// (decays, keys with keys, the solve, keys and values, states, output: seven in place of one); and the share of the bf16
// peak that they reach together, for chunks of a sequence wait for one another: 3.5 to 6.1 % at the medians
// of SGLang 0.5.14's tables on H100, H200, B200 and B300 (AIConfigurator 095f58a, chunk_gated_delta_rule).
constexpr double kLinearChunk = 64;
constexpr int kLinearPromptKernels = 6;
constexpr double kLinearPeakShare = 0.05;
// FlashMLA's sparse prefill works on whole groups of so many query heads: SGLang pads to them on Hopper, and its layers
// take as long at 16 heads as at 64 (AIConfigurator, H200).
constexpr double kSparseHeads = 64;
// On Hopper sparse decodes with an fp8 cache multiply in bf16, whole groups of heads with all of the top k however short
// the context: "410 TFLOPS in compute-bound configuration on H800" (FlashMLA's README), whose peak is 989.
constexpr double kSparseDecodes = 410.0 / 989;
constexpr double kStateBytes = 2;       // bf16
constexpr double kIndexScoreBytes = 8;  // float32, written and read by the choice of the top k
// The time to choose a decode's top k grows with the context of one sequence; a second sequence adds 1 to 6 us. The indexer's
// time (layers of GLM-5 with it less those without) beyond its time for contexts within the top k: 9 to 11 us at 4,096
// tokens, 13 to 15 at 16,384, 38 at 65,536, 64 to 68 at 131,072 (1 sequence on H100, H200 and B200; SGLang 0.5.14,
// AIConfigurator 095f58a, dsa_generation_module).
constexpr double kChoice = 8.5e-6, kChoicePerToken = 0.43e-9;

}  // namespace

// With MLA the queries take in the key half of the latents' expansion before the scores (the absorbed form), and the
// values' half comes behind. The indexer's matrices are whole on every GPU.
std::vector<ComputeModel::AttentionMatrix> ComputeModel::attention_matrices(const MoeSpec& model, double tp) {
  const AttentionSpec& a = model.attention;
  const double hidden = model.hidden, heads = a.heads / tp;
  const auto share = [&](AttentionReach reach) { return static_cast<double>(model.layers_of(reach)) / model.layers; };
  const double linear = share(AttentionReach::kLinear), softmax = 1 - linear, sparse = share(AttentionReach::kSparse);
  std::vector<AttentionMatrix> out;
  if (a.kind == AttentionKind::kMla) {
    const double query_in = a.q_lora_rank > 0 ? a.q_lora_rank : hidden;
    const double keys = static_cast<double>(a.qk_nope_head_dim) / (a.qk_nope_head_dim + a.v_head_dim);
    out = {{{static_cast<double>(a.q_lora_rank + a.kv_lora_rank + a.qk_rope_head_dim), hidden}, 1, softmax},
           {{heads * (a.qk_nope_head_dim + a.qk_rope_head_dim), query_in}, 1, softmax},
           {{heads * (a.qk_nope_head_dim + a.v_head_dim), static_cast<double>(a.kv_lora_rank)}, keys, softmax},
           {{hidden, heads * a.v_head_dim, WeightsOf::kOutput}, 0, softmax}};
  } else {
    const double kv_heads = std::max(1.0, a.kv_heads / tp), queries = a.output_gate ? 2 * heads : heads;
    out = {{{(queries + 2 * kv_heads) * a.head_dim, hidden}, 1, softmax},
           {{hidden, heads * a.head_dim, WeightsOf::kOutput}, 0, softmax}};
  }
  if (sparse > 0) {
    const double index_heads = a.indexer.heads, width = a.indexer.head_dim;
    out.push_back({{index_heads * width, static_cast<double>(a.q_lora_rank)}, 1, sparse});
    out.push_back({{width + index_heads, hidden}, 1, sparse});
  }
  if (linear > 0) {
    const LinearAttentionSpec& l = a.linear;
    out.push_back({{(l.conv_width() + l.value_width() + 2.0 * l.value_heads) / tp, hidden}, 1, linear});
    out.push_back({{hidden, l.value_width() / tp}, 0, linear});
  }
  return out;
}

ComputeModel::ComputeModel(const MoeSpec& model, const GpuSpec& gpu, const Parallelism& parallelism,
                           ComputeProfile profile)
    : model_(model),
      gpu_(gpu),
      parallelism_(parallelism),
      profile_(std::move(profile)),
      flops_per_row_(6.0 * model.hidden * model.moe_intermediate),
      expert_bytes_(model.expert_bytes()),
      weight_rate_(gpu.memory_bandwidth * profile_.weight_read.value) {
  layers_ = model.attention_layers();
  attention_matrices_ = attention_matrices(model, parallelism.attention_tp);
  linear_layers_ = static_cast<double>(model.layers_of(AttentionReach::kLinear)) / model.layers;
  if (profile_.fitted != nullptr) {
    fitted_.emplace(*profile_.fitted, profile_.carried_over, model, gpu, parallelism);
  }
  for (int i = 0; i <= kGroupedOctaves * kStepsPerOctave; ++i) {
    const double rows = std::ldexp(1 + static_cast<double>(i % kStepsPerOctave) / kStepsPerOctave, i / kStepsPerOctave);
    const Efficiency share = profile_.grouped(model.hidden, model.moe_intermediate, rows);
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
  const Flops work(2.0 * rows * weights.count() / model_.weight_bytes(WeightsOf::kAttention));
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

// Kernels like a norm, each of which reads and writes every row once.
Price ComputeModel::norms(double rows, int kernels) const {
  if (const std::optional<Price> each = fitted_ ? fitted_->norm(rows) : std::nullopt) {
    return {each->time * kernels, each->origin};
  }
  return memory_bound(Bytes(rows * model_.hidden * kBf16Bytes * 2.0 * kernels), kernels);
}

// Between the products of attention: MLA's norms of its latents; the rotary embedding and the KV write, one kernel.
Price ComputeModel::between_projections(double tokens) const {
  const AttentionSpec& a = model_.attention;
  const bool mla = a.kind == AttentionKind::kMla;
  const double tp = parallelism_.attention_tp, heads = a.heads / tp;
  const double cached = mla ? a.kv_lora_rank + a.qk_rope_head_dim : 2.0 * a.head_dim * std::max(1.0, a.kv_heads / tp);
  const double turned = mla ? heads * a.qk_rope_head_dim : heads * a.head_dim;
  const Price rotary = memory_bound(Bytes(tokens * 2 * (turned + cached) * kBf16Bytes), 1);
  if (!mla) {
    return rotary;
  }
  const int norms = a.q_lora_rank > 0 ? 2 : 1;
  return rotary + memory_bound(Bytes(tokens * 2 * (a.q_lora_rank + a.kv_lora_rank) * kBf16Bytes), norms);
}

Price ComputeModel::projections(double tokens) const {
  if (!fitted_ || !fitted_->has_dense()) {
    const double tp = parallelism_.attention_tp, softmax = 1 - linear_layers_;
    return times(gemm(tokens, model_.attention_replicated_bytes()), softmax) +
           times(gemm(tokens, model_.attention_split_bytes(parallelism_.attention_tp)), softmax) +
           times(gemm(tokens, model_.linear_attention_bytes() / tp), linear_layers_);
  }
  Price total;
  for (const AttentionMatrix& matrix : attention_matrices_) {
    total = total + times(fitted_->product(tokens, matrix.shape), matrix.layers);
  }
  return total;
}

Price ComputeModel::projections_before_scores(double tokens) const {
  Price total;
  double before = 0, all = 0;
  for (const AttentionMatrix& matrix : attention_matrices_) {
    const double weights = matrix.shape.n * matrix.shape.k * matrix.layers;
    before += weights * matrix.before;
    all += weights;
    if (fitted_ && fitted_->has_dense() && matrix.before > 0) {
      total = total + times(fitted_->product(tokens, matrix.shape), matrix.before * matrix.layers);
    }
  }
  if (fitted_ && fitted_->has_dense()) {
    return total;
  }
  const Price whole = projections(tokens);
  return {whole.time * (before / all), whole.origin};
}

// Decodes in the batch count: a whole batch has one form.
bool ComputeModel::absorbs(const RankBatch& batch) const {
  const double cached = batch.prefill_context + batch.decode_context;
  return model_.attention.kind == AttentionKind::kMla && cached > 0 && cached < model_.attention.absorbed_below;
}

// The cached latents of the chunks' context are expanded to keys and values (MLA alone), but for the absorbed form.
Price ComputeModel::context_expansion(const RankBatch& batch) const {
  const AttentionSpec& a = model_.attention;
  const double tokens = batch.prefill_context;
  if (a.kind != AttentionKind::kMla || tokens <= 0 || absorbs(batch)) {
    return {};
  }
  const double columns = static_cast<double>(a.heads) / parallelism_.attention_tp * (a.qk_nope_head_dim + a.v_head_dim);
  if (fitted_ && fitted_->has_dense()) {
    return fitted_->product(tokens, {columns, static_cast<double>(a.kv_lora_rank)});
  }
  return gemm(tokens, Bytes(a.kv_lora_rank * columns * model_.weight_bytes(WeightsOf::kAttention)));
}

// Scores and values: 2 flops a multiply-add, per query-key pair and head. The absorbed form, whose products are wider, is
// taken at the same share of the peak.
Price ComputeModel::prefill_scores(const RankBatch& batch) const {
  if (batch.prefill_pairs <= 0) {
    return {};
  }
  const AttentionSpec& a = model_.attention;
  const double heads = static_cast<double>(a.heads) / parallelism_.attention_tp;
  const double pair_width =
      a.kind == AttentionKind::kMla ? a.qk_nope_head_dim + a.qk_rope_head_dim + a.v_head_dim : 2.0 * a.head_dim;
  const double wider = absorbs(batch) ? (2.0 * a.kv_lora_rank + a.qk_rope_head_dim) / pair_width : 1.0;
  const Flops work(2.0 * batch.prefill_pairs * heads * pair_width * wider);
  const auto price = [&](Seconds time, Origin origin) {
    return Price{time, wider > 1 ? weaker(origin, Origin::kExtrapolated) : origin};
  };
  if (const std::optional<Price> fit = fitted_ ? fitted_->prefill(batch) : std::nullopt) {
    return price(std::max(fit->time * wider, work / gpu_.bf16_peak), fit->origin);
  }
  return price(work / (gpu_.bf16_peak * profile_.attention_prefill.value), profile_.attention_prefill.origin);
}

// Decode in the absorbed form for MLA: the latents are read once for all heads, and for all queries of a sequence that
// verifies drafts. Kernels were measured with one query each: more take as long, or as their products do, in the cache's
// type, where that is longer (128 heads of MLA do 242 flops a byte with one query; an H100 295 at its peak).
Price ComputeModel::decode_scores(const RankBatch& batch) const {
  if (batch.decode_context <= 0) {
    return {};
  }
  const AttentionSpec& a = model_.attention;
  const double heads = static_cast<double>(a.heads) / parallelism_.attention_tp;
  const double width = a.kind == AttentionKind::kMla ? 2.0 * a.kv_lora_rank + a.qk_rope_head_dim : 2.0 * a.head_dim;
  const Flops work(2.0 * batch.decode_context * batch.decode_queries * heads * width);
  const bool fp8 = model_.bytes_per_kv < 2 && gpu_.fp8_peak.count() > 0;
  const Price products{work / ((fp8 ? gpu_.fp8_peak : gpu_.bf16_peak) * kDecodeProducts), Origin::kExtrapolated};
  if (const std::optional<Price> price = fitted_ ? fitted_->decode(batch) : std::nullopt) {
    return batch.decode_queries > 1 ? longer(*price, products) : *price;
  }
  const Bytes cached = model_.layer_kv_bytes(parallelism_.attention_tp) * batch.decode_context;
  return longer({cached / (gpu_.memory_bandwidth * profile_.attention_decode.value), profile_.attention_decode.origin},
                products);
}

// Scores of layers that attend to all tokens of the batch.
Price ComputeModel::scores(const RankBatch& batch) const {
  return context_expansion(batch) + prefill_scores(batch) + decode_scores(batch);
}

// Every query scores the index keys of all tokens before it, in fp8 where the GPU has it.
Price ComputeModel::indexer_scores(const RankBatch& batch) const {
  const double pairs = batch.prefill_pairs + batch.decode_context * batch.decode_queries;
  if (pairs <= 0) {
    return {};
  }
  const IndexerSpec& indexer = model_.attention.indexer;
  const FlopsPerSecond peak = gpu_.fp8_peak.count() > 0 ? gpu_.fp8_peak : gpu_.bf16_peak;
  const Flops work(2.0 * pairs * indexer.heads * indexer.head_dim);
  const Bytes keys = model_.index_key_bytes() * (batch.prefill_context + batch.decode_context);
  const Price products{work / (peak * profile_.attention_prefill.value), profile_.attention_prefill.origin};
  const Price read{keys / (gpu_.memory_bandwidth * profile_.attention_decode.value), profile_.attention_decode.origin};
  return longer(products, read) + memory_bound(Bytes(pairs * kIndexScoreBytes), 1);
}

// Of a query and a token that is picked: whole groups of heads, in the absorbed form.
double ComputeModel::sparse_flops() const {
  const AttentionSpec& a = model_.attention;
  const double heads =
      std::ceil(static_cast<double>(a.heads) / parallelism_.attention_tp / kSparseHeads) * kSparseHeads;
  return 2 * heads * (2.0 * a.kv_lora_rank + a.qk_rope_head_dim);
}

// The choice of the top k, and attention to them.
Price ComputeModel::sparse_decodes(const RankBatch& batch, const RankBatch& picked, int top_k) const {
  Price out = decode_scores(picked);
  if (picked.decode_context > 0 && model_.bytes_per_kv < 2 && gpu_.fp8_peak.count() > 0 && gpu_.fp4_peak.count() == 0) {
    const Flops work(sparse_flops() * static_cast<double>(batch.decode_tokens) * top_k);
    out = longer(out, {work / (gpu_.bf16_peak * kSparseDecodes), Origin::kExtrapolated});
  }
  if (picked.decode_context < batch.decode_context) {
    const Seconds choice(kChoice + kChoicePerToken * batch.decode_context / batch.decode_sequences());
    out = out + Price{choice, Origin::kExtrapolated};
  }
  return out;
}

// DeepSeek Sparse Attention: the indexer's scores, then attention to the tokens that it picks, in the absorbed form
// also for prompts (FlashMLA's sparse kernels). Prompts that lie within the top k have full attention and no scores of
// the indexer, as in SGLang 0.5.14 (dense MHA up to index_topk tokens).
Price ComputeModel::sparse_scores(const RankBatch& batch, const AttentionLayers& layers) const {
  RankBatch prompts = batch, decodes = batch;
  prompts.decode_context = 0;
  decodes.prefill_pairs = decodes.prefill_context = 0;
  const RankBatch picked = within_reach(batch, layers);
  const Price of_decodes = sparse_decodes(batch, picked, layers.tokens);
  if (picked.prefill_pairs == batch.prefill_pairs) {
    return scores(prompts) + indexer_scores(decodes) + of_decodes;
  }
  const Price absorbed{
      Flops(sparse_flops() * picked.prefill_pairs) / (gpu_.bf16_peak * profile_.attention_prefill.value),
      profile_.attention_prefill.origin};
  return indexer_scores(batch) + absorbed + of_decodes;
}

// The gated delta rule. Of every token and value head, multiply-adds with the state (its prediction, its update, the
// query: 3 x key x value width), and in a chunk of c tokens keys with keys, queries with keys, scores with values, and
// the triangular solve's keys and values: c x (3 x key + 2 x value width).
Price ComputeModel::linear_attention(const RankBatch& batch) const {
  const LinearAttentionSpec& a = model_.attention.linear;
  const double tp = parallelism_.attention_tp, heads = a.value_heads / tp;
  const double key = a.key_head_dim, value = a.value_head_dim;
  const Flops work(2.0 * static_cast<double>(batch.prefill_tokens) * heads *
                   (3 * key * value + kLinearChunk * (3 * key + 2 * value)));
  const Price prompts = batch.prefill_tokens > 0
                            ? Price{work / (gpu_.bf16_peak * kLinearPeakShare), Origin::kExtrapolated} +
                                  memory_bound({}, kLinearPromptKernels)
                            : Price{};
  // In and out of the convolution; values, gate and output of what follows.
  const double activations = (2 * a.conv_width() + 3 * a.value_width()) / tp * kStateBytes;
  const Bytes states = model_.linear_state_bytes() * (2.0 / tp * static_cast<double>(batch.decode_tokens));
  const Bytes moved = Bytes(activations * static_cast<double>(batch.tokens())) + states;
  return prompts + memory_bound(moved, kLinearKernels);
}

Price ComputeModel::attention(const RankBatch& batch) const {
  const auto tokens = static_cast<double>(batch.tokens());
  if (tokens <= 0) {
    return {};
  }
  double whole = 0;  // share of the layers that attend to all tokens of this batch
  Price limited;
  for (const AttentionLayers& layers : layers_) {
    const double share = static_cast<double>(layers.layers) / model_.layers;
    if (layers.reach == AttentionReach::kLinear) {
      limited = limited + times(linear_attention(batch), share);
    } else if (layers.reach == AttentionReach::kSparse) {
      limited = limited + times(sparse_scores(batch, layers), share);
    } else if (const RankBatch reached = within_reach(batch, layers);
               reached.prefill_pairs == batch.prefill_pairs && reached.decode_context == batch.decode_context) {
      whole += share;
    } else {
      limited = limited + times(scores(reached), share);
    }
  }
  const Price total = projections(tokens) + times(context_expansion(batch), whole) +
                      times(prefill_scores(batch), whole) + times(decode_scores(batch), whole) + extrapolated(limited);
  return total + norms(kResidualNormRows * tokens, kResidualNorms) + between_projections(tokens);
}

Price ComputeModel::before_scores(const RankBatch& batch) const {
  const auto tokens = static_cast<double>(batch.tokens());
  if (tokens <= 0) {
    return {};
  }
  return projections_before_scores(tokens) + norms(kResidualNormRows * tokens, 1) + between_projections(tokens);
}

Price ComputeModel::gate(double tokens) const {
  if (tokens <= 0 || model_.dense()) {
    return {};
  }
  if (const std::optional<Price> whole = fitted_ ? fitted_->gate(tokens) : std::nullopt) {
    return *whole;
  }
  const Bytes scores(tokens * model_.experts * 4.0);  // float32
  const bool fits = fitted_ && fitted_->has_dense();
  const Price router =
      fits ? fitted_->product(tokens,
                              {static_cast<double>(model_.experts), 1.0 * model_.hidden, WeightsOf::kUnquantised})
           : gemm(tokens, Bytes(1.0 * model_.hidden * model_.experts * model_.weight_bytes(WeightsOf::kAttention)));
  return router + memory_bound(scores, kGateKernels);
}

// An FFN with gate, up and down: split over GPUs, each of them works on all tokens; replicated, on its own share of
// them.
Price ComputeModel::ffn(std::int64_t tokens, double intermediate, Sharding sharding) const {
  if (tokens <= 0 || intermediate <= 0) {
    return {};
  }
  const double hidden = model_.hidden;
  const bool split = sharding != Sharding::kReplicated;
  const double rows = static_cast<double>(tokens) / (split ? 1 : parallelism_.attention_tp);
  const double width = intermediate / parallelism_.ways(sharding);
  const Bytes activation(width * rows * 3.0 *
                         model_.weight_bytes(WeightsOf::kAttention));  // two inputs, one output, per column
  const bool fits = fitted_ && fitted_->has_dense();
  const Price products = fits ? fitted_->product(rows, {2 * width, hidden, WeightsOf::kFfn}) +
                                    fitted_->product(rows, {hidden, width, WeightsOf::kFfn})
                              : gemm(rows, Bytes(3.0 * hidden * width * model_.weight_bytes(WeightsOf::kAttention)));
  return products + (fitted_ ? fitted_->activation(rows, width) : std::nullopt).value_or(memory_bound(activation, 1));
}

Price ComputeModel::shared_expert(std::int64_t tokens) const {
  return ffn(tokens, model_.shared_intermediate, parallelism_.shared_experts);
}
Price ComputeModel::dense_ffn(std::int64_t tokens) const {
  return ffn(tokens, model_.dense_intermediate, parallelism_.dense_ffn);
}

Price ComputeModel::experts(double rows, double touched, std::optional<double> tokens) const {
  if (rows <= 0) {
    return {};
  }
  if (fitted_ && fitted_->has_experts()) {
    return fitted_->experts(rows, touched, tokens);
  }
  // Position in the table without a logarithm: the exponent gives the octave, the mantissa the step in it.
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

void ComputeModel::experts(std::span<const double> rows, std::span<const double> touched, std::optional<double> tokens,
                           PriceRow& out) const {
  if (fitted_ && fitted_->has_experts()) {
    fitted_->experts(rows, touched, tokens, out);
    return;
  }
  out.resize(rows.size());
  out.origin_at = kOriginsThemselves.data();
  for (std::size_t g = 0; g < rows.size(); ++g) {
    out.set(g, experts(rows[g], touched[g], tokens));
  }
}

Price ComputeModel::mtp_input(std::int64_t tokens) const {
  if (tokens <= 0) {
    return {};
  }
  const auto rows = static_cast<double>(tokens);
  const double hidden = model_.hidden;
  const bool fits = fitted_ && fitted_->has_dense();
  const Price product = fits ? fitted_->product(rows, {hidden, 2 * hidden, WeightsOf::kUnquantised})
                             : gemm(rows, Bytes(2 * hidden * hidden * model_.weight_bytes(WeightsOf::kAttention)));
  return product + norms(rows, kMtpNorms);
}

Price ComputeModel::head(std::int64_t sampled) const {
  if (sampled <= 0) {
    return {};
  }
  const double ways = parallelism_.ways(parallelism_.lm_head);
  const Bytes matrix(static_cast<double>(model_.vocab) * model_.hidden * model_.weight_bytes(WeightsOf::kAttention) /
                     ways);
  const Bytes logits(static_cast<double>(sampled) * model_.vocab * 4.0);  // float32, gathered before sampling
  const auto rows = static_cast<double>(sampled);
  const bool fits = fitted_ && fitted_->has_dense();
  const Price product =
      fits ? fitted_->product(rows, {model_.vocab / ways, 1.0 * model_.hidden, WeightsOf::kUnquantised})
           : gemm(rows, matrix);
  return product + memory_bound(logits, 1);
}

}  // namespace epsim
