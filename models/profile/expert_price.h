// What a fitted grouped GEMM takes on one GPU of an expert-parallel group.
//
//   Models : few experts with many rows, where a table measured whole models on one GPU alone: over two octaves of rows beyond
//            those with which so few experts were touched there, the fit passes into the time that each expert takes among all of
//            the model's at as many rows: nothing was measured closer to it. Of TensorRT-LLM's own cubins it is no less than that
//            of the same experts with the fewest rows.
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
