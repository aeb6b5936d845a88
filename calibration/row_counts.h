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

// A router that keeps the best `kept` of `groups` groups of experts, each as good as its two best experts, and takes the best
// experts of these. One group leaves all choices as they are.
struct RouterGroups {
  int groups = 1;
  int kept = 1;
};
// Rows per expert where such a router stands between a collector's scores and the kernel: tokens whose experts lie in groups
// that are not kept take others, and of equal ones the first. So does the router of DeepSeek-V3 (8 groups, 4 kept), with
// which SGLang's and vLLM's tables measure its experts: 128 of 256 are read where tokens are balanced. Counted so, an H200
// reads whole fp8 experts in SGLang's table at 3.3 to 4.3 TB/s of its 4.8, at 4 to 512 tokens of all distributions; counted
// as the collector asks for them, at up to 8.1.
std::vector<std::int64_t> balanced_rows(const RoutingShape& shape, const RouterGroups& router);
// Of popularities that lie over the experts in a drawn order.
std::vector<std::int64_t> power_law_rows(const RoutingShape& shape, double alpha, const RouterGroups& router,
                                         RandomStream& order);

// Rows of the experts of the rank that has most rows: what the collectors measure as rank 0.
std::vector<std::int64_t> busiest_rank(const std::vector<std::int64_t>& rows, int ranks);

// What a grouped GEMM's price takes of row counts.
struct GroupRows {
  double rows = 0, groups = 0, rows_max = 0;
};
GroupRows summarise_rows(const std::vector<std::int64_t>& rows);

}  // namespace epsim
