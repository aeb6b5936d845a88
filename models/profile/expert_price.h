// What a fitted grouped GEMM takes on one GPU of an expert-parallel group.
//
//   Models : few experts with many rows: where a table measured whole models on one GPU alone, each of a GPU's few experts takes
//            the time that it takes among all of the model's at as many rows: nothing was measured closer to it.
//   Ignores: assignments to other GPUs' experts, where all tokens are on every GPU: FittedOp::rank_terms().
#pragma once

#include "models/profile/fitted_op.h"

namespace epsim {

// Rows on one GPU's experts, as op_shapes.h has them, and of how many experts in the model they are.
struct ExpertRows {
  double each = 0, groups = 0, rows_max = 0;  // rows of one touched expert; touched experts
  double hidden = 0, intermediate = 0;
  double tokens = 0;   // that come in and go out
  double experts = 0;  // of the model
};

Price expert_price(const FittedOp& op, const ExpertRows& r);

}  // namespace epsim
