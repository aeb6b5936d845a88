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
// Router scores to top-k ids and weights.
constexpr int kGateKernels = 1;

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
  const Seconds time =
      moved / (gpu_.memory_bandwidth * profile_.memory_bound.value) + Seconds(profile_.kernel_constant.value * kernels);
  return {time, weaker(profile_.memory_bound.origin, profile_.kernel_constant.origin)};
}

Price ComputeModel::attention(const RankBatch& batch) const {
  const auto tokens = static_cast<double>(batch.tokens());
  if (tokens <= 0) {
    return {};
  }
  const AttentionSpec& a = model_.attention;
  const double tp = parallelism_.attention_tp;
  const double heads = a.heads / tp;
  const bool mla = a.kind == AttentionKind::kMla;
  Price total = gemm(tokens, model_.attention_replicated_bytes()) + gemm(tokens, model_.attention_split_bytes() / tp);
  if (mla && batch.prefill_context > 0) {  // the cached latents of the chunks' context are expanded to keys and values
    const double expand = static_cast<double>(a.kv_lora_rank) * heads * (a.qk_nope_head_dim + a.v_head_dim);
    total = total + gemm(batch.prefill_context, Bytes(expand * model_.bytes_per_weight));
  }
  // Scores and values: 2 flops a multiply-add, per query-key pair and head. Decode in the absorbed form for MLA.
  const double pair_width = mla ? a.qk_nope_head_dim + a.qk_rope_head_dim + a.v_head_dim : 2.0 * a.head_dim;
  if (batch.prefill_pairs > 0) {
    total = total + Price{Flops(2.0 * batch.prefill_pairs * heads * pair_width) /
                              (gpu_.bf16_peak * profile_.attention_prefill.value),
                          profile_.attention_prefill.origin};
  }
  if (batch.decode_context > 0) {
    const Bytes cached = model_.kv_bytes_per_token(parallelism_.attention_tp) / model_.layers * batch.decode_context;
    total = total +
            Price{cached / (gpu_.memory_bandwidth * profile_.attention_decode.value), profile_.attention_decode.origin};
  }
  const Bytes activations(tokens * model_.hidden * model_.bytes_per_weight);
  return total + memory_bound(activations * (2.0 * kNormKernels), kNormKernels);  // each reads and writes them once
}

Price ComputeModel::gate(std::int64_t tokens) const {
  if (tokens <= 0) {
    return {};
  }
  const double here = static_cast<double>(tokens) / parallelism_.attention_tp;
  const Bytes scores(here * model_.experts * 4.0);  // float32
  return gemm(here, model_.router_bytes()) + memory_bound(scores, kGateKernels);
}

// An FFN with gate, up and down: split over the tensor-parallel group, every GPU works on all tokens; replicated, on
// its own share of them.
Price ComputeModel::ffn(std::int64_t tokens, Bytes whole_weights, Sharding sharding) const {
  if (tokens <= 0 || whole_weights.count() <= 0) {
    return {};
  }
  const double tp = parallelism_.attention_tp;
  const bool split = sharding == Sharding::kTensorParallel;
  const double rows = split ? static_cast<double>(tokens) : static_cast<double>(tokens) / tp;
  const Bytes weights = split ? whole_weights / tp : whole_weights;
  const Bytes activation(weights.count() / (3.0 * model_.hidden) * rows * 3.0);  // two inputs, one output, per column
  return gemm(rows, weights) + memory_bound(activation, 1);
}

Price ComputeModel::shared_expert(std::int64_t tokens) const {
  return ffn(tokens, model_.shared_expert_bytes(), parallelism_.shared_experts);
}
Price ComputeModel::dense_ffn(std::int64_t tokens) const {
  return ffn(tokens, model_.dense_ffn_bytes(), parallelism_.dense_ffn);
}

Price ComputeModel::experts(double rows, double touched) const {
  if (rows <= 0) {
    return {};
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

Price ComputeModel::head(std::int64_t sampled) const {
  if (sampled <= 0) {
    return {};
  }
  const double tp = parallelism_.embedding == Sharding::kTensorParallel ? parallelism_.attention_tp : 1.0;
  const Bytes matrix(static_cast<double>(model_.vocab) * model_.hidden * model_.bytes_per_weight / tp);
  const Bytes logits(static_cast<double>(sampled) * model_.vocab * 4.0);  // float32, gathered before sampling
  return gemm(static_cast<double>(sampled), matrix) + memory_bound(logits, 1);
}

}  // namespace epsim
