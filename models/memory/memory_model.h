// What a GPU's memory holds, and how many tokens of KV cache are left (physics.md section 5).
//
//   pool   = usable memory x static fraction - reserves (activations, communication buffers, resident extras)
//   KV     = pool - weights, in blocks of `kv_block_tokens`; a DP rank has what its tightest GPU has
//   Models : attention split by heads over the DP rank's tensor-parallel group, with the parts that cannot be split
//            (MLA down-projections) on every GPU; shared experts, dense FFN, embedding and head split or whole as
//            Parallelism says; the router whole on every GPU; routed experts and their copies where the placement puts them, whole
//            or, where EP ranks have several GPUs, each GPU's share of them.
//   Ignores: normalisation weights, fragmentation, pipeline parallelism, the peak of activations but for vLLM's sampler.
//   Source : CRAFT's setups as worked out in this model's tests; MemoryAccount for the engines' own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/domain/cluster_spec.h"
#include "sim/domain/moe_spec.h"
#include "sim/domain/parallelism.h"

namespace epsim {

// What the fraction is a share of, and what of it is neither weights nor KV cache.
enum class MemoryAccount {
  kPlain,   // usable memory x fraction, less the reserves that the scenario states
  kSglang,  // what is free when weights start to load x fraction (model_runner.py, profile_max_num_token)
  kVllm,    // usable memory x fraction, less what was gone when weights started to load (gpu_worker.py)
  kTrtllm   // what weights and reserves leave x fraction, for KV cache alone (pyexecutor/_util.py, _cal_max_memory)
};
// What is gone of a GPU's memory when weights start to load: the driver's share, CUDA context, NCCL communicators.
//   Source : 8 H200 under SGLang, TP8: 140.40 GiB listed, 125.65 + 12.25 = 137.90 GiB free (github.com/SemiAnalysisAI/
//            InferenceX issue 2128); 138.29 with TP4 (sglang pull request 17392). Carried over to the other GPUs.
inline constexpr Bytes kGoneBeforeLoad{(140.40 - 137.90) * 1073741824.0};

struct MemoryOptions {
  double static_fraction = 0;  // for weights, reserves and KV cache, unless the account says otherwise; in (0, 1]
  // The engines' accounts count what the engine holds beside a checkpoint's weights: MLA's up-projections a second time
  // in bf16, taken apart for absorption, and the scales of fp8 weights (a float32 for 128 x 128).
  MemoryAccount account = MemoryAccount::kPlain;
  Bytes reserve{};  // on every GPU: activations, communication buffers
  // On every GPU, where the account is not plain: the peak that the engine measures with a step of dummies and sets aside.
  Bytes profiled_peak{};
  Bytes reserve_per_node{};  // on every GPU, once per node of the cluster: buffers that grow with the ranks
  Bytes resident_extra{};    // on every GPU: what a policy holds besides placed experts, such as prefetch buffers
  // Of a rank's tokens, the share that layers with sliding windows keep too; 0: they keep a window of every sequence.
  double window_share = 0;
  // The layer of a multi-token-prediction drafter, its weights and keys, comes out of the same memory.
  bool drafter = false;
  int kv_block_tokens = 1;                     // tokens of one KV block
  std::optional<std::int64_t> num_gpu_blocks;  // KV blocks per DP rank instead of what fits; checked against memory
};

// Weights of one GPU by group, all layers.
struct WeightBytes {
  Bytes attention_replicated{};  // whatever the sharding: MLA's q_a and kv_a
  Bytes attention_split{};       // this GPU's heads
  Bytes shared_experts{};
  Bytes dense_ffn{};
  Bytes router{};
  Bytes embedding{};  // and output head
  Bytes without_experts() const {
    return attention_replicated + attention_split + shared_experts + dense_ffn + router + embedding;
  }
};

// The KV cache of one DP rank.
struct RankKv {
  int tightest_gpu = 0;     // of the rank's GPUs, the one with the most resident experts
  Bytes pool{};             // on each of its GPUs
  std::int64_t tokens = 0;  // blocks x kv_block_tokens
  std::int64_t blocks = 0;
};

struct MemoryBreakdown {
  Bytes usable{};         // what a process can allocate
  Bytes static_pool{};    // usable x static fraction
  Bytes reserves{};       // taken from it before weights
  WeightBytes weights;    // alike on all GPUs
  Bytes expert{};         // one routed expert of one layer, as a GPU holds it
  Bytes experts_base{};   // per GPU without copies: the mean, layers x experts / EP ranks
  int tightest_gpu = 0;   // of the instance
  Bytes expert_copies{};  // there, what it holds over experts_base
  Bytes kv_per_token{};   // on one GPU
  // There besides, of every sequence that holds KV memory: linear states, and windows where `window_share` is 0. Taken out
  // of the same pool, as vLLM's hybrid KV cache manager does (vllm/v1/core/kv_cache_utils.py: one pool of pages for all
  // kinds of layers); SGLang sets a share of the pool aside for states (mamba_full_memory_ratio).
  Bytes kv_per_sequence{};
  Bytes kv_pool{};                 // on the tightest GPU
  Bytes kv_pool_without_extras{};  // with an even share of the experts on every GPU, and without resident_extra
  double extras_loss = 0;          // share of it that copies and resident_extra took; 0 when num_gpu_blocks is given
  std::vector<RankKv> ranks;

  // On the tightest GPU.
  Bytes weights_total() const { return weights.without_experts() + experts_base + expert_copies; }
};

// The share with which weights, reserves and KV cache together have `more` than they have; std::nullopt where not even all
// of the memory gives that, or the share does not bound them.
std::optional<double> static_fraction_for(Bytes more, const ClusterSpec& cluster, const MemoryOptions& options);

// Weights of one GPU besides routed experts.
WeightBytes weights_per_gpu(const MoeSpec& model, const Parallelism& parallelism);

// What a GPU can give to routed experts if nothing is left for the KV cache: the bound for Placement::build.
// Throws DoesNotFit (for GPU 0; all are alike) when the other weights alone exceed the pool.
Bytes expert_memory(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
                    const MemoryOptions& options);

// `resident` counts the physical experts of each GPU over all layers, copies included (Placement::resident).
// Throws DoesNotFit, naming the GPU, when weights exceed the pool, when it leaves less than one KV block, or when
// num_gpu_blocks needs more than the GPU has; InputError for options out of range.
MemoryBreakdown memory_breakdown(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
                                 const MemoryOptions& options, std::span<const std::int64_t> resident);

}  // namespace epsim
