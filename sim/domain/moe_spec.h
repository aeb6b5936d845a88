// What a Mixture-of-Experts model is, as far as time, traffic and memory depend on it.
#pragma once

#include <string>
#include <vector>

#include "sim/core/units.h"
#include "sim/domain/weight_type.h"

namespace epsim {

enum class AttentionKind { kMla, kGqa };

// Which tokens a query attends to, and what a layer caches for that.
enum class AttentionReach {
  kFull,     // all before it; caches every token
  kSliding,  // the last `tokens`; caches those
  kChunked,  // those of its own chunk of `tokens`; caches every token (see kv_bytes_per_token)
  kSparse,   // the `tokens` that an indexer picks; caches every token and its index key
  kLinear    // all before it, through a state of constant size
};
struct AttentionLayers {
  AttentionReach reach = AttentionReach::kFull;
  int layers = 0;
  int tokens = 0;  // window, chunk or top-k; 0 for full and linear attention
};

// The indexer of DeepSeek Sparse Attention: `heads` queries score one key of `head_dim` per cached token.
struct IndexerSpec {
  int heads = 0, head_dim = 0;
};

// A gated delta rule (Qwen3-Next): per value head a state of key_head_dim x value_head_dim, behind a causal convolution
// over queries, keys and values.
struct LinearAttentionSpec {
  int key_heads = 0, value_heads = 0, key_head_dim = 0, value_head_dim = 0, conv_kernel = 0;
  double bytes_per_state = 4;  // float32, SGLang's default (mamba_ssm_dtype); the convolution's state is bf16
  double key_width() const { return static_cast<double>(key_heads) * key_head_dim; }
  double value_width() const { return static_cast<double>(value_heads) * value_head_dim; }
  double conv_width() const { return 2 * key_width() + value_width(); }
};

// Shapes per layer. MLA: latent `kv_lora_rank` + `qk_rope_head_dim` is cached once per token; GQA: K and V per KV head.
struct AttentionSpec {
  AttentionKind kind = AttentionKind::kGqa;
  int heads = 0;
  int kv_heads = 0;                           // GQA only
  int head_dim = 0;                           // GQA only
  int q_lora_rank = 0;                        // MLA only; 0 = queries are projected directly
  int kv_lora_rank = 0;                       // MLA only
  int qk_nope_head_dim = 0;                   // MLA only
  int qk_rope_head_dim = 0;                   // MLA only
  int v_head_dim = 0;                         // MLA only
  bool output_gate = false;                   // GQA only: queries are projected together with a gate of the same width
  std::vector<AttentionLayers> limited = {};  // layers of other reach than full
  IndexerSpec indexer = {};                   // of sparse layers
  LinearAttentionSpec linear = {};            // of linear layers
  // MLA only: prompts take the absorbed form, scores over the latents, in a batch whose sequences have fewer cached tokens
  // before them than this, and at least one. 0 = never; the serving engine's.
  double absorbed_below = 0;
};

struct MoeSpec {
  std::string name;
  int layers = 0;              // all transformer layers, without multi-token-prediction heads
  int first_dense_layers = 0;  // leading layers with a dense FFN
  int moe_every = 1;           // of the layers after those, every n-th is MoE (Llama 4: 2)
  int hidden = 0;
  int dense_intermediate = 0;  // 0 when the model has no dense FFN
  int experts = 0;             // routed experts per MoE layer; 0 = a dense model
  int top_k = 0;
  int moe_intermediate = 0;     // FFN width of one routed expert
  int shared_intermediate = 0;  // total FFN width of the shared experts, 0 = none
  int expert_groups = 1;        // group-limited routing: experts are in this many groups
  int top_groups = 1;           // of which a token may use this many
  int vocab = 0;
  int context = 0;     // tokens of a request that it was made for (max_position_embeddings); 0: not known
  int mtp_layers = 0;  // multi-token-prediction layers published with it, beside `layers`
  bool tied_embeddings = false;
  WeightType dtype = WeightType::kBf16;  // of its checkpoint
  WeightType weights_of(WeightsOf part) const { return type_of(dtype, part); }
  double weight_bytes(WeightsOf part) const { return bytes_of(weights_of(part)); }
  double bytes_per_kv = 2;  // bf16
  AttentionSpec attention;
  std::string source;           // where the figures come from
  std::string model_type = {};  // of its config.json, where engines tell models apart by it; may be empty

  // Throws InputError naming the figure that is missing or impossible.
  void validate() const;

  bool dense() const { return experts == 0; }  // no layer has experts: all are of first_dense_layers

  int moe_layers() const;
  int dense_layers() const { return layers - moe_layers(); }
  // Model layer number (0-based) of each MoE layer.
  std::vector<int> moe_layer_numbers() const;

  // One routed expert: gate, up and down matrices of one layer.
  Bytes expert_bytes() const;
  // All layers by the reach of their attention; those with full attention first.
  std::vector<AttentionLayers> attention_layers() const;
  int layers_of(AttentionReach reach) const;
  // Attention weights of one softmax layer that every tensor-parallel rank keeps whole (MLA: q_a and kv_a
  // down-projections, and the indexer's; GQA: none) and the share of one of `tensor_parallel` in those that are split by
  // heads; of K and V no rank has less than one head.
  Bytes attention_replicated_bytes() const;
  Bytes attention_split_bytes(int tensor_parallel = 1) const;
  Bytes linear_attention_bytes() const;  // weights of one linear layer, split by heads
  Bytes dense_ffn_bytes() const;         // one dense layer
  Bytes shared_expert_bytes() const;     // one MoE layer
  Bytes router_bytes() const;            // one MoE layer
  Bytes embedding_bytes() const;         // embedding and head together
  // What one token adds to the KV cache of one tensor-parallel rank, in all layers that cache every token. MLA: the
  // latent is replicated on every rank. GQA: KV heads are split, at least one head a rank. Index keys are replicated.
  // Chunked layers count: vLLM keeps all of their tokens (its hybrid KV cache manager is off with chunked local
  // attention unless VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE is set).
  Bytes kv_bytes_per_token(int tensor_parallel) const;
  // What a sequence has there besides, however long it is: the windows of sliding layers, taken as full, and the states
  // of linear layers.
  Bytes kv_bytes_per_sequence(int tensor_parallel, bool windows = true) const;  // without: of linear layers alone
  // One layer like the last, with experts: what multi-token prediction drafts with. In bf16 beside nvfp4: TensorRT-LLM's blog 1
  // (Precision Strategy), SGLang's models/deepseek_nextn.py (no quantisation for modelopt_fp4).
  MoeSpec mtp_layer() const;
  Bytes layer_kv_bytes(int tensor_parallel) const;  // one token in one softmax layer, without its index key
  Bytes index_key_bytes() const;                    // one token in one sparse layer
  Bytes linear_state_bytes() const;                 // one sequence in one linear layer, not split
};

}  // namespace epsim
