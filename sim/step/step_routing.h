// What policies that act in every step are shown: how the tokens of each GPU choose experts in one layer of one step,
// in whole assignments, and what a predictor would have said of it.
//
//   Models : the tokens that share a row of the step's loads choose experts as it says, rounded to whole assignments; each
//            of their GPUs has its part of them, so that every token makes top-k. A predictor of a stated accuracy gets that share of the assignments right;
//            the rest follows the loads that the scenario plans from (stale popularity), with every expert's popularity
//            distorted by a lognormal factor.
//   Ignores: which token chose which expert. Misses that are independent from token to token would hardly matter; it is
//            the distorted popularity that costs balance.
//   Source : Libra, Table 1, for the accuracy of such predictors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/step_policy.h"
#include "sim/core/rng.h"
#include "sim/domain/parallelism.h"
#include "sim/domain/placement_plan.h"
#include "sim/domain/step_loads.h"
#include "sim/scenario/step_policy_run.h"

namespace epsim {

// [layer] Where experts lie by a plan; the copy on the lowest GPU is the home. Two copies on one GPU count once.
std::vector<Residency> homes_of(const PlacementPlan& plan, int gpus_per_node);

// Tokens of each GPU when the ranks have these: a rank's tokens lie evenly over its GPUs, in whole tokens.
std::vector<std::int64_t> tokens_by_gpu(std::span<const std::int64_t> by_rank, const Parallelism& parallelism);

// Exactly top_k assignments per token; a row's tokens in all are off its count of an expert by less than one.
RequestMatrix draw_requests(const StepLoads& loads, int layer, const Parallelism& parallelism,
                            std::span<const std::int64_t> gpu_tokens, int top_k, RandomStream& random);

// What a policy is told of a layer ahead. Nothing, zeros, of the first MoE layer, whose copies would have to start before
// the step, and where the policy looks at no prediction.
RequestMatrix predict_layer(const ExecutionProfile& profile, int layer, const RequestMatrix& truth,
                            std::span<const double> stale, const PredictorOptions& options, RandomStream& random);
// A policy that copies ahead copies nothing where nothing was predicted: such copies would have no time to arrive in.
void check_predicted(const ExecutionProfile& profile, const RequestMatrix& predicted, const StepDecision& decision);

// `stale` [expert]: loads of the layer in the window that is planned from.
RequestMatrix predict(const RequestMatrix& truth, std::span<const double> stale, const PredictorOptions& options,
                      RandomStream& random);

}  // namespace epsim
