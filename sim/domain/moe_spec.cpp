#include "sim/domain/moe_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/core/refuse.h"

namespace epsim {

int MoeSpec::moe_layers() const {
  const int after_dense = layers - first_dense_layers;
  return after_dense / moe_every;
}

std::vector<int> MoeSpec::moe_layer_numbers() const {
  std::vector<int> numbers;
  for (int l = first_dense_layers; l < layers; ++l) {
    if ((l - first_dense_layers) % moe_every == moe_every - 1) {
      numbers.push_back(l);
    }
  }
  return numbers;
}

namespace {

// `need(holds, problem)` complains.
template <class Need>
void validate_attention(const AttentionSpec& a, int layers, const Need& need) {
  need(a.heads > 0, "attention heads must be positive.");
  if (a.kind == AttentionKind::kMla) {
    need(a.kv_lora_rank > 0 && a.qk_nope_head_dim > 0 && a.qk_rope_head_dim >= 0 && a.v_head_dim > 0,
         "MLA needs kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim and v_head_dim.");
  } else {
    need(a.kv_heads > 0 && a.head_dim > 0 && a.heads % a.kv_heads == 0,
         "GQA needs head_dim and kv_heads that divide the heads.");
  }
  int limited = 0;
  for (const AttentionLayers& l : a.limited) {
    need(l.layers > 0, "each kind of attention needs a positive number of layers.");
    need(l.tokens > 0 || l.reach == AttentionReach::kLinear, "a window, chunk or top_k must be positive.");
    need(l.reach != AttentionReach::kSparse ||
             (a.kind == AttentionKind::kMla && a.q_lora_rank > 0 && a.indexer.heads > 0 && a.indexer.head_dim > 0),
         "sparse attention needs MLA with q_lora_rank, index_heads and index_head_dim.");
    const LinearAttentionSpec& s = a.linear;
    need(l.reach != AttentionReach::kLinear || (s.key_heads > 0 && s.value_heads > 0 && s.key_head_dim > 0 &&
                                                s.value_head_dim > 0 && s.conv_kernel > 0 && s.bytes_per_state > 0),
         "linear attention needs key and value heads, their widths, conv_kernel and bytes_per_state.");
    limited += l.layers;
  }
  need(limited <= layers,
       fmt::format("sliding, chunked, sparse and linear attention take {} layers; the model has {}.", limited, layers));
}

template <class Need>
void validate_experts(const MoeSpec& m, const Need& need) {
  need(m.first_dense_layers >= 0 && m.first_dense_layers < m.layers,
       fmt::format("first_dense_layers is {}, which must be in 0..{}.", m.first_dense_layers, m.layers - 1));
  need(m.moe_every >= 1 && m.moe_layers() >= 1, "the model has no MoE layer.");
  need(m.experts >= 1 && m.moe_intermediate > 0, "experts and moe_intermediate must be positive.");
  need(m.top_k >= 1 && m.top_k <= m.experts, fmt::format("top_k is {}, which must be in 1..{}.", m.top_k, m.experts));
  need(m.expert_groups >= 1 && m.experts % m.expert_groups == 0,
       fmt::format("{} experts do not divide into {} groups.", m.experts, m.expert_groups));
  need(m.top_groups >= 1 && m.top_groups <= m.expert_groups, "top_groups must be in 1..expert_groups.");
  need(m.top_k <= m.top_groups * (m.experts / m.expert_groups), "top_k experts do not fit into top_groups groups.");
}

template <class Need>
void validate_without_experts(const MoeSpec& m, const Need& need) {
  need(m.first_dense_layers == m.layers, "a model without experts has a dense FFN in every layer.");
  need(m.top_k == 0 && m.moe_intermediate == 0 && m.shared_intermediate == 0,
       "a model without experts has no top_k, moe_intermediate and shared_intermediate.");
}

}  // namespace

void MoeSpec::validate() const {
  const auto need = [&](bool holds, const std::string& what) { refuse_if(!holds, {source, 0, name}, what); };
  need(layers > 0 && hidden > 0 && vocab > 0, "layers, hidden and vocab must be positive.");
  if (dense()) {
    validate_without_experts(*this, need);
  } else {
    validate_experts(*this, need);
  }
  need(dense_layers() == 0 || dense_intermediate > 0, "the model has dense layers but no dense_intermediate.");
  need(shared_intermediate >= 0 && dense_intermediate >= 0 && attention.q_lora_rank >= 0,
       "shared_intermediate, dense_intermediate and q_lora_rank must not be negative.");
  need(bytes_per_kv > 0, "bytes per KV element must be positive.");
  validate_attention(attention, layers, need);
}

std::vector<AttentionLayers> MoeSpec::attention_layers() const {
  std::vector<AttentionLayers> out;
  if (const int full = layers_of(AttentionReach::kFull); full > 0) {
    out.push_back({AttentionReach::kFull, full});
  }
  out.insert(out.end(), attention.limited.begin(), attention.limited.end());
  return out;
}

int MoeSpec::layers_of(AttentionReach reach) const {
  const bool full = reach == AttentionReach::kFull;
  return std::accumulate(attention.limited.begin(), attention.limited.end(), full ? layers : 0,
                         [&](int sum, const AttentionLayers& l) {
                           return full ? sum - l.layers : l.reach == reach ? sum + l.layers : sum;
                         });
}

Bytes MoeSpec::expert_bytes() const {
  return Bytes(3.0 * hidden * moe_intermediate * weight_bytes(WeightsOf::kExperts));
}

Bytes MoeSpec::attention_replicated_bytes() const {
  const AttentionSpec& a = attention;
  if (a.kind != AttentionKind::kMla) {
    return Bytes(0);
  }
  const double columns = a.q_lora_rank + a.kv_lora_rank + a.qk_rope_head_dim;
  // The indexer's queries come from the compressed query, its key and the weights of its heads from the hidden state;
  // SGLang (layers/attention/nsa/nsa_indexer.py) and vLLM (models/deepseek_v2.py) keep all three on every rank.
  const double indexer = static_cast<double>(a.q_lora_rank) * a.indexer.heads * a.indexer.head_dim +
                         static_cast<double>(hidden) * (a.indexer.head_dim + a.indexer.heads);
  return Bytes((hidden * columns + indexer) * weight_bytes(WeightsOf::kAttention));
}

Bytes MoeSpec::attention_split_bytes(int tensor_parallel) const {
  const AttentionSpec& a = attention;
  const double heads = static_cast<double>(a.heads) / tensor_parallel;
  double weights = 0, output = 0;
  if (a.kind == AttentionKind::kMla) {
    const double query_in = a.q_lora_rank > 0 ? a.q_lora_rank : hidden;
    weights = query_in * heads * (a.qk_nope_head_dim + a.qk_rope_head_dim) +
              static_cast<double>(a.kv_lora_rank) * heads * (a.qk_nope_head_dim + a.v_head_dim);
    output = heads * a.v_head_dim * hidden;
  } else {
    const double queries = a.output_gate ? 2.0 * heads : heads;
    const double kv_heads = std::max(1.0, static_cast<double>(a.kv_heads) / tensor_parallel);
    weights = static_cast<double>(hidden) * a.head_dim * (queries + 2.0 * kv_heads);
    output = static_cast<double>(hidden) * a.head_dim * heads;
  }
  return Bytes(weights * weight_bytes(WeightsOf::kAttention) + output * weight_bytes(WeightsOf::kOutput));
}

Bytes MoeSpec::dense_ffn_bytes() const {
  return Bytes(3.0 * hidden * dense_intermediate * weight_bytes(WeightsOf::kFfn));
}
Bytes MoeSpec::shared_expert_bytes() const {
  return Bytes(3.0 * hidden * shared_intermediate * weight_bytes(WeightsOf::kFfn));
}
Bytes MoeSpec::router_bytes() const {
  return Bytes(static_cast<double>(hidden) * experts * weight_bytes(WeightsOf::kUnquantised));
}
Bytes MoeSpec::embedding_bytes() const {
  return Bytes((tied_embeddings ? 1.0 : 2.0) * vocab * hidden * weight_bytes(WeightsOf::kUnquantised));
}

// Queries, keys, values and output gate; two scalars per value head (decay and step); the convolution; the output.
Bytes MoeSpec::linear_attention_bytes() const {
  const LinearAttentionSpec& a = attention.linear;
  const double columns = a.conv_width() + a.value_width() + 2.0 * a.value_heads;
  return Bytes((hidden * columns + a.conv_width() * a.conv_kernel + a.value_width() * hidden) *
               weight_bytes(WeightsOf::kAttention));
}

MoeSpec MoeSpec::mtp_layer() const {
  MoeSpec out = *this;
  out.layers = 1;
  out.first_dense_layers = dense() ? 1 : 0;
  out.moe_every = 1;
  if (dtype == WeightType::kFp4) {
    out.dtype = WeightType::kBf16;
  }
  // Where all layers are alike (DeepSeek-V3.2), so is this one; beside layers of several kinds it has full attention, as
  // in Qwen3-Next.
  std::vector<AttentionLayers>& limited = out.attention.limited;
  if (limited.size() == 1 && limited.front().layers == layers) {
    limited.front().layers = 1;
  } else {
    limited.clear();
  }
  return out;
}

Bytes MoeSpec::layer_kv_bytes(int tensor_parallel) const {
  const AttentionSpec& a = attention;
  if (a.kind == AttentionKind::kMla) {
    // What sparse kernels read in fp8: a float32 scale for each 128 of the latent, and bf16 for rope (vLLM's fp8_ds_mla,
    // 656 bytes for DeepSeek-V3.2; SGLang's override_kv_cache_dim).
    const bool scaled = bytes_per_kv < 2 && layers_of(AttentionReach::kSparse) > 0;
    return scaled ? Bytes(a.kv_lora_rank * (bytes_per_kv + 4.0 / 128) + 2.0 * a.qk_rope_head_dim)
                  : Bytes((a.kv_lora_rank + a.qk_rope_head_dim) * bytes_per_kv);
  }
  const int heads_here = std::max(1, (a.kv_heads + tensor_parallel - 1) / tensor_parallel);
  return Bytes(2.0 * heads_here * a.head_dim * bytes_per_kv);
}

// fp8 with a float32 scale per 128, whatever the KV cache's type: SGLang's NSATokenToKVPool, vLLM's
// DeepseekV32IndexerCache.
Bytes MoeSpec::index_key_bytes() const {
  constexpr int kScaledTogether = 128, kScaleBytes = 4;
  const int width = attention.indexer.head_dim;
  const int scales = (width + kScaledTogether - 1) / kScaledTogether;
  return Bytes(width + scales * kScaleBytes);
}

Bytes MoeSpec::linear_state_bytes() const {
  const LinearAttentionSpec& a = attention.linear;
  constexpr double kConvStateBytes = 2;  // bf16
  return Bytes(a.value_width() * a.key_head_dim * a.bytes_per_state +
               a.conv_width() * (a.conv_kernel - 1) * kConvStateBytes);
}

Bytes MoeSpec::kv_bytes_per_token(int tensor_parallel) const {
  const int caching = layers - layers_of(AttentionReach::kSliding) - layers_of(AttentionReach::kLinear);
  return layer_kv_bytes(tensor_parallel) * caching + index_key_bytes() * layers_of(AttentionReach::kSparse);
}

Bytes MoeSpec::kv_bytes_per_sequence(int tensor_parallel, bool windows) const {
  Bytes out;
  for (const AttentionLayers& l : attention.limited) {
    if (windows && l.reach == AttentionReach::kSliding) {
      out += layer_kv_bytes(tensor_parallel) * (static_cast<double>(l.layers) * l.tokens);
    } else if (l.reach == AttentionReach::kLinear) {
      out += linear_state_bytes() * (static_cast<double>(l.layers) / tensor_parallel);
    }
  }
  return out;
}

}  // namespace epsim
