// What a Mixture-of-Experts model is, as far as time, traffic and memory depend on it.
#pragma once

#include <string>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

enum class AttentionKind { kMla, kGqa };

// Shapes per layer. MLA: latent `kv_lora_rank` + `qk_rope_head_dim` is cached once per token; GQA: K and V per KV head.
struct AttentionSpec {
  AttentionKind kind = AttentionKind::kGqa;
  int heads = 0;
  int kv_heads = 0;          // GQA only
  int head_dim = 0;          // GQA only
  int q_lora_rank = 0;       // MLA only; 0 = queries are projected directly
  int kv_lora_rank = 0;      // MLA only
  int qk_nope_head_dim = 0;  // MLA only
  int qk_rope_head_dim = 0;  // MLA only
  int v_head_dim = 0;        // MLA only
};

struct MoeSpec {
  std::string name;
  int layers = 0;              // all transformer layers, without multi-token-prediction heads
  int first_dense_layers = 0;  // leading layers with a dense FFN
  int moe_every = 1;           // of the layers after those, every n-th is MoE (Llama 4: 2)
  int hidden = 0;
  int dense_intermediate = 0;  // 0 when the model has no dense FFN
  int experts = 0;             // routed experts per MoE layer
  int top_k = 0;
  int moe_intermediate = 0;     // FFN width of one routed expert
  int shared_intermediate = 0;  // total FFN width of the shared experts, 0 = none
  int expert_groups = 1;        // group-limited routing: experts are in this many groups
  int top_groups = 1;           // of which a token may use this many
  int vocab = 0;
  bool tied_embeddings = false;
  double bytes_per_weight = 2;  // bf16
  double bytes_per_kv = 2;      // bf16
  AttentionSpec attention;
  std::string source;  // where the figures come from

  // Throws InputError naming the figure that is missing or impossible.
  void validate() const;

  int moe_layers() const;
  int dense_layers() const { return layers - moe_layers(); }
  // Model layer number (0-based) of each MoE layer.
  std::vector<int> moe_layer_numbers() const;

  // One routed expert: gate, up and down matrices of one layer.
  Bytes expert_bytes() const;
  // Attention weights of one layer that every tensor-parallel rank keeps whole (MLA: q_a and kv_a down-projections;
  // GQA: none) and those that are split by heads.
  Bytes attention_replicated_bytes() const;
  Bytes attention_split_bytes() const;
  Bytes dense_ffn_bytes() const;      // one dense layer
  Bytes shared_expert_bytes() const;  // one MoE layer
  Bytes router_bytes() const;         // one MoE layer
  Bytes embedding_bytes() const;      // embedding and head together
  // KV cache of one token on one tensor-parallel rank, all layers. MLA: the latent is replicated on every rank. GQA: KV
  // heads are split, at least one head a rank.
  Bytes kv_bytes_per_token(int tensor_parallel) const;
};

}  // namespace epsim
