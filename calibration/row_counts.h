// How many rows each expert got in a public measurement of a grouped GEMM, which states only tokens and a distribution.
//
//   Models : the routing of NVIDIA AIConfigurator's collectors (github.com/ai-dynamo/aiconfigurator,
//   collector/helper.py
//            at commit 006afd7: balanced_logits, sample_power_law, _generate_power_law_distribution). Balanced: token t
//            takes the experts t + i x ceil(E / k), i below k, modulo E. Power law: each expert's popularity is drawn
//            from a density x^-alpha between 1 and 0.8 tokens (0.01 and 2 where there are no more assignments than
//            experts), scaled to the number of assignments, rounded, held to one row per token, and evened out rank by
//            rank.
//   Ignores: which draw it was: the source states no seed. `quantiles` takes the distribution's quantiles instead of a
//            draw, `drawn` repeats the procedure with a stream of ours.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/rng.h"

namespace epsim {

struct RoutingShape {
  std::int64_t tokens = 0;
  int experts = 0;
  int top_k = 0;
  int ranks = 1;  // expert-parallel ranks, each with experts / ranks in a row
};

// Rows per expert; they sum to tokens x top_k.
std::vector<std::int64_t> balanced_rows(const RoutingShape& shape);
// Rows of rank 0's experts in SGLang's table 0.5.10, balanced: the collector leaves tokens without an expert there out
// (collector/helper.py, build_rank0_local_workload) and sends the others' remote choices to expert 0, which computes them
// (collector/sglang/collect_moe.py: `clamp(min=0)`). So read, the A100's rows reach up to 66 % of the peak; the tables of
// 0.5.14, whose remote choices are masked, would reach 194 %.
std::vector<std::int64_t> first_rank_with_remotes(const RoutingShape& shape);
std::vector<std::int64_t> power_law_quantiles(const RoutingShape& shape, double alpha);
std::vector<std::int64_t> power_law_drawn(const RoutingShape& shape, double alpha, RandomStream& random);

// Rows of the experts of the rank that has most rows: what the collectors measure as rank 0.
std::vector<std::int64_t> busiest_rank(const std::vector<std::int64_t>& rows, int ranks);

// What a grouped GEMM's price takes of row counts.
struct GroupRows {
  double rows = 0, groups = 0, rows_max = 0;
};
GroupRows summarise_rows(const std::vector<std::int64_t>& rows);

}  // namespace epsim
