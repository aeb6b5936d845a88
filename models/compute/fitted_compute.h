// Prices of one run's operators from a machine's fits: the model's shapes put into the fitted operators, and a table
// for the expert GEMM, which every GPU of every layer asks for.
//
//   Models : weight matrices as dense GEMMs of their own shape; attention by batch and length; grouped expert GEMM by
//            rows per touched expert and number of touched experts (ExpertTable).
//            On one GPU of an expert-parallel group as models/profile/expert_price.h says.
//            What surrounds the products (gate, norms, activation, permutation of the rows around the expert GEMM where
//            its own kernel has none, logits) by operators of their own where the machine's profile has them.
//   Ignores: which experts of a GPU have how many rows: the hottest of g is taken to have g^0.31 times the mean, what
//            DeepSeek-R1's published loads have in groups of 2, 4 and 8 (1.25, 1.55, 1.9; sgl-project/sglang issue
//            6017). Mixed lengths: a batch counts as sequences of its mean length.
//   Source : calibration/profiles/<machine>/fit.yaml; rates of the GPU at hand, so that another GPU's fits scale.
//   Valid  : as fitted_op.h; borrowed fits are extrapolated.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/compute/expert_table.h"
#include "models/profile/fitted_op.h"
#include "sim/domain/cluster_spec.h"
#include "sim/domain/moe_spec.h"
#include "sim/domain/parallelism.h"
#include "sim/domain/step.h"

namespace epsim {

// A weight matrix on one GPU: k inputs, n outputs.
struct WeightMatrix {
  double n = 0, k = 0;
  WeightsOf type = WeightsOf::kAttention;
};

class FittedCompute {
 public:
  // `carried_over`: why another GPU's fits stand in; empty = its own.
  FittedCompute(const FittedProfile& profile, const std::string& carried_over, const MoeSpec& model, const GpuSpec& gpu,
                const Parallelism& parallelism);

  bool has_dense() const { return dense_.front().has_value(); }
  bool has_experts() const { return !of_rows_.empty(); }

  // `rows` rows times a matrix in its type. Needs has_dense(); without a fit of that type attention's is taken.
  Price product(double rows, const WeightMatrix& matrix) const;
  // Both expert GEMMs, activation and permutation of `rows` assignments to `touched` experts of a GPU; if has_experts(). `tokens`:
  // all tokens are on every GPU, and their other assignments are remote; none: each row comes and goes by itself.
  Price experts(double rows, double touched, std::optional<double> tokens) const;
  // The same for several GPUs: rows[i] and touched[i] give out[i].
  void experts(std::span<const double> rows, std::span<const double> touched, std::optional<double> tokens,
               PriceRow& out) const;
  // Scores and values on one GPU of the rank, without projections. Nothing where the operator was not fitted, or the
  // model's heads are not those that were measured.
  std::optional<Price> prefill(const RankBatch& batch) const;
  std::optional<Price> decode(const RankBatch& batch) const;
  // One kernel each; nothing where the operator was not fitted.
  std::optional<Price> gate(double tokens) const;                    // router, softmax and choice
  std::optional<Price> norm(double rows) const;                      // of the model's width
  std::optional<Price> activation(double rows, double width) const;  // of an FFN's columns
  std::optional<Price> moved(Bytes read_and_written) const;          // by a kernel that only moves memory

 private:
  std::optional<Price> price_of(const std::optional<FittedOp>& op, std::span<const double> parameters) const;
  Price permutation(double rows) const;
  std::optional<FittedOp> take(const FittedProfile& profile, const std::string& op, const GpuSpec& gpu) const;
  void tabulate_experts(const FittedOp& op, const MoeSpec& model);
  Price marked(Price price) const;
  Price new_product(double rows, const WeightMatrix& matrix) const;
  std::vector<double> attention_parameters(double batch, double length) const;

  AttentionSpec attention_;
  double hidden_ = 0, routed_experts_ = 0, top_k_ = 0;
  double tensor_parallel_ = 1;
  bool borrowed_ = false;
  std::array<std::optional<FittedOp>, kWeightParts> dense_;  // by WeightsOf; none of experts
  std::optional<FittedOp> prefill_, decode_;
  std::optional<FittedOp> gate_, norm_, activation_, permute_, unpermute_, copy_;
  ExpertTable of_tokens_, of_rows_;
  std::optional<RankTerms> ranks_;  // where all tokens are on every GPU; none without expert parallelism
  // Products asked for before: a run asks for the same few matrices at the same numbers of tokens again and again. A
  // run has a model of its own, so no two threads meet here.
  struct KnownProduct {
    double rows = 0;
    WeightMatrix matrix;
    Price price;
  };
  mutable std::vector<KnownProduct> known_;  // [hash of rows, n and k]
};

}  // namespace epsim
