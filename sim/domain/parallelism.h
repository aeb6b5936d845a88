// How one instance of a model is laid over its GPUs: attention in DP ranks, experts over EP ranks. An EP rank is a GPU,
// or `moe_tp` consecutive ones that split every one of its experts by columns (SGLang: moe_tp_size = tp_size /
// ep_size).
#pragma once

#include "sim/domain/cluster_spec.h"
#include "sim/domain/moe_spec.h"

namespace epsim {

// Whether a group of weights is split over the attention tensor-parallel group, kept whole on every GPU, or split over
// all GPUs of the instance, each of which then works on all ranks' tokens.
enum class Sharding { kTensorParallel, kReplicated, kAllGpus };

struct Parallelism {
  int gpus = 0;          // of the instance
  int attention_tp = 0;  // GPUs of one DP rank; consecutive GPU ids
  Sharding shared_experts = Sharding::kTensorParallel;
  Sharding dense_ffn = Sharding::kTensorParallel;
  Sharding embedding = Sharding::kTensorParallel;
  Sharding lm_head = Sharding::kTensorParallel;  // output head; with tied embeddings its weights are the embedding's
  int moe_tp = 1;                                // GPUs of one EP rank

  int dp_ranks() const { return gpus / attention_tp; }
  // GPUs that share weights held so.
  int ways(Sharding sharding) const {
    return sharding == Sharding::kAllGpus ? gpus : sharding == Sharding::kTensorParallel ? attention_tp : 1;
  }
  int rank_of(int gpu) const { return gpu / attention_tp; }
  int ep_size() const { return gpus / moe_tp; }
  // What placements are made for: EP ranks in the place of GPUs. An EP rank of several nodes is a node of its own.
  ClusterShape ep_shape(const ClusterShape& shape) const;
  // The model with the share of every routed expert that one GPU holds and computes. A share of quantised columns is
  // padded to whole blocks of 128 where a checkpoint's blocks do not divide (fp8 and nvfp4 experts).
  MoeSpec one_gpu_of(MoeSpec model) const;
  // Whether a GPU's columns of a split fp8 expert end within a block of 128.
  bool splits_blocks(const MoeSpec& model) const;
  // Throws InputError when the layout does not divide (GPUs over ranks, heads over TP,
  // experts' columns over the GPUs of an EP rank).
  void validate(const MoeSpec& model, const ClusterShape& shape) const;
};

}  // namespace epsim
