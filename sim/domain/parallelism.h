// How one instance of a model is laid over its GPUs: expert parallelism over all of them, attention in DP ranks.
#pragma once

#include "sim/domain/cluster_spec.h"
#include "sim/domain/moe_spec.h"

namespace epsim {

// Whether a group of weights is split over the attention tensor-parallel group or kept whole on every GPU.
enum class Sharding { kTensorParallel, kReplicated };

struct Parallelism {
  int gpus = 0;          // of the instance; the expert-parallel group spans all of them
  int attention_tp = 0;  // GPUs of one DP rank; consecutive GPU ids
  Sharding shared_experts = Sharding::kTensorParallel;
  Sharding dense_ffn = Sharding::kTensorParallel;
  Sharding embedding = Sharding::kTensorParallel;

  int dp_ranks() const { return gpus / attention_tp; }
  int rank_of(int gpu) const { return gpu / attention_tp; }
  // Throws InputError when the layout does not divide (GPUs over ranks, heads over TP).
  void validate(const MoeSpec& model, const ClusterShape& shape) const;
};

}  // namespace epsim
