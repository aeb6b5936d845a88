// Time of one layer's computations on one GPU: from the machine's fitted operators (fitted_compute.h) where it has
// them, else flops or bytes over the data sheet's rate times a measured share of it.
//
//   Models : attention (MLA, GQA; prefill with context, decode reading the KV cache), gate, dense FFN and shared
//            experts, grouped expert GEMMs, norms, output head. Without fits the grouped GEMM has the weight bytes of
//            the touched experts as a floor, and its share of the peak is measured over rows per touched expert, for
//            the shape nearest in size. A model that mixes kinds of attention has the mean over its layers in each.
//            Windows, chunks and sparse attention: the kernels of full attention over the tokens within reach. Sparse
//            attention besides: the indexer's scores, whole on every GPU, and its choice for decodes. Linear attention:
//            products in chunks of 64 tokens, the state read and written for each decode. These are extrapolated: none
//            was measured here.
//   Ignores: quantisation kernels, the CPU; without fits also tile padding, waves and skew between a GPU's experts. The
//            indexer's choice for prompts.
//   Source : shares and constants from a ComputeProfile (models/hardware/compute); kernel counts per layer part
//            are stated beside the code. Sparse attention: DeepSeek-V3.2-Exp's report (section 2) and SGLang 0.5.14.
//            Linear attention: Yang et al., "Gated Delta Networks" (arXiv 2412.06464, section 3.3), as in
//            flash-linear-attention; what its kernels reach is from public tables.
//   Valid  : every Price carries the weakest origin of the figures that made it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/catalogue/hardware_profile.h"
#include "models/compute/fitted_compute.h"
#include "sim/domain/cluster_spec.h"
#include "sim/domain/parallelism.h"
#include "sim/domain/step.h"

namespace epsim {

class ComputeModel {
 public:
  ComputeModel(const MoeSpec& model, const GpuSpec& gpu, const Parallelism& parallelism, ComputeProfile profile);

  // One layer each, the mean one where layers differ, on one GPU of the DP rank; zero work takes no time.
  Price attention(const RankBatch& batch) const;  // norm, projections, scores; no collective
  // What of it comes ahead of the scores: norm, the projections of queries, keys and latents, the cache's write.
  Price before_scores(const RankBatch& batch) const;
  Price gate(double tokens) const;  // router GEMM and top-k, on as many tokens as the GPU scores
  Price shared_expert(std::int64_t tokens) const;
  Price dense_ffn(std::int64_t tokens) const;
  // `rows` routed assignments that touch `touched` physical experts. `tokens`: what the kernel reads and adds up, where all
  // tokens are on every GPU; none: each row comes and goes by itself.
  Price experts(double rows, double touched, std::optional<double> tokens = {}) const;
  // The same for several GPUs: rows[i] and touched[i] give out[i].
  void experts(std::span<const double> rows, std::span<const double> touched, std::optional<double> tokens,
               PriceRow& out) const;
  // What a multi-token-prediction layer begins with: embedding and hidden state side by side, two norms and a product of
  // their widths, in bf16 and whole on every GPU.
  Price mtp_input(std::int64_t tokens) const;
  // Once per step: logits of the sequences that get a token, and sampling.
  Price head(std::int64_t sampled) const;

 private:
  struct AttentionMatrix {
    WeightMatrix shape;  // on one GPU
    double before = 1;   // share of it that is multiplied ahead of the scores
    double layers = 1;   // share of the model's layers that have it
  };

  Price gemm(double rows, Bytes weights) const;
  Price memory_bound(Bytes moved, int kernels) const;
  Price norms(double rows, int kernels) const;
  Price between_projections(double tokens) const;
  Price ffn(std::int64_t tokens, double intermediate, Sharding sharding) const;
  static std::vector<AttentionMatrix> attention_matrices(const MoeSpec& model, double tp);
  Price projections(double tokens) const;
  Price projections_before_scores(double tokens) const;
  bool absorbs(const RankBatch& batch) const;
  Price context_expansion(const RankBatch& batch) const;
  Price prefill_scores(const RankBatch& batch) const;
  Price decode_scores(const RankBatch& batch) const;
  Price scores(const RankBatch& batch) const;
  double sparse_flops() const;
  Price sparse_decodes(const RankBatch& batch, const RankBatch& picked, int top_k) const;
  Price sparse_scores(const RankBatch& batch, const AttentionLayers& layers) const;
  Price indexer_scores(const RankBatch& batch) const;
  Price linear_attention(const RankBatch& batch) const;

  MoeSpec model_;
  GpuSpec gpu_;
  Parallelism parallelism_;
  ComputeProfile profile_;
  std::optional<FittedCompute> fitted_;
  std::vector<AttentionMatrix> attention_matrices_;
  std::vector<AttentionLayers> layers_;  // by reach
  double linear_layers_ = 0;             // share of the model's layers
  // Constants of the hot function experts().
  Flops flops_per_row_;
  Bytes expert_bytes_;
  BytesPerSecond weight_rate_;
  // Measured rate over rows per expert, in steps of 1/8 octave from one row on:
  // a table, because every GPU of every layer asks.
  struct GroupedRate {
    double flops_per_s = 0;
    Origin origin = Origin::kDeclared;
  };
  std::vector<GroupedRate> grouped_rates_;
};

}  // namespace epsim
