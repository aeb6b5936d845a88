#include "sim/domain/moe_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/core/error.h"

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

void MoeSpec::validate() const {
  const auto need = [&](bool holds, const std::string& what) {
    if (!holds) {
      throw InputError({source, 0, name}, what);
    }
  };
  need(layers > 0 && hidden > 0 && vocab > 0, "layers, hidden and vocab must be positive.");
  need(first_dense_layers >= 0 && first_dense_layers < layers,
       fmt::format("first_dense_layers is {}, which must be in 0..{}.", first_dense_layers, layers - 1));
  need(moe_every >= 1 && moe_layers() >= 1, "the model has no MoE layer.");
  need(experts >= 1 && moe_intermediate > 0, "experts and moe_intermediate must be positive.");
  need(top_k >= 1 && top_k <= experts, fmt::format("top_k is {}, which must be in 1..{}.", top_k, experts));
  need(expert_groups >= 1 && experts % expert_groups == 0,
       fmt::format("{} experts do not divide into {} groups.", experts, expert_groups));
  need(top_groups >= 1 && top_groups <= expert_groups, "top_groups must be in 1..expert_groups.");
  need(top_k <= top_groups * (experts / expert_groups), "top_k experts do not fit into top_groups groups.");
  need(dense_layers() == 0 || dense_intermediate > 0, "the model has dense layers but no dense_intermediate.");
  need(shared_intermediate >= 0 && dense_intermediate >= 0 && attention.q_lora_rank >= 0,
       "shared_intermediate, dense_intermediate and q_lora_rank must not be negative.");
  need(bytes_per_weight > 0 && bytes_per_kv > 0, "bytes per weight and per KV element must be positive.");
  const AttentionSpec& a = attention;
  need(a.heads > 0, "attention heads must be positive.");
  if (a.kind == AttentionKind::kMla) {
    need(a.kv_lora_rank > 0 && a.qk_nope_head_dim > 0 && a.qk_rope_head_dim >= 0 && a.v_head_dim > 0,
         "MLA needs kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim and v_head_dim.");
  } else {
    need(a.kv_heads > 0 && a.head_dim > 0 && a.heads % a.kv_heads == 0,
         "GQA needs head_dim and kv_heads that divide the heads.");
  }
}

Bytes MoeSpec::expert_bytes() const { return Bytes(3.0 * hidden * moe_intermediate * bytes_per_weight); }

Bytes MoeSpec::attention_replicated_bytes() const {
  const AttentionSpec& a = attention;
  if (a.kind != AttentionKind::kMla) {
    return Bytes(0);
  }
  const double columns = a.q_lora_rank + a.kv_lora_rank + a.qk_rope_head_dim;
  return Bytes(hidden * columns * bytes_per_weight);
}

Bytes MoeSpec::attention_split_bytes() const {
  const AttentionSpec& a = attention;
  double weights = 0;
  if (a.kind == AttentionKind::kMla) {
    const double query_in = a.q_lora_rank > 0 ? a.q_lora_rank : hidden;
    weights = query_in * a.heads * (a.qk_nope_head_dim + a.qk_rope_head_dim) +
              static_cast<double>(a.kv_lora_rank) * a.heads * (a.qk_nope_head_dim + a.v_head_dim) +
              static_cast<double>(a.heads) * a.v_head_dim * hidden;
  } else {
    weights = static_cast<double>(hidden) * a.head_dim * (2.0 * a.heads + 2.0 * a.kv_heads);
  }
  return Bytes(weights * bytes_per_weight);
}

Bytes MoeSpec::dense_ffn_bytes() const { return Bytes(3.0 * hidden * dense_intermediate * bytes_per_weight); }
Bytes MoeSpec::shared_expert_bytes() const { return Bytes(3.0 * hidden * shared_intermediate * bytes_per_weight); }
Bytes MoeSpec::router_bytes() const { return Bytes(static_cast<double>(hidden) * experts * bytes_per_weight); }
Bytes MoeSpec::embedding_bytes() const {
  return Bytes((tied_embeddings ? 1.0 : 2.0) * vocab * hidden * bytes_per_weight);
}

Bytes MoeSpec::kv_bytes_per_token(int tensor_parallel) const {
  const AttentionSpec& a = attention;
  double elements = 0;
  if (a.kind == AttentionKind::kMla) {
    elements = a.kv_lora_rank + a.qk_rope_head_dim;
  } else {
    const int heads_here = std::max(1, (a.kv_heads + tensor_parallel - 1) / tensor_parallel);
    elements = 2.0 * heads_here * a.head_dim;
  }
  return Bytes(elements * layers * bytes_per_kv);
}

}  // namespace epsim
