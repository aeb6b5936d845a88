// The task graph of a step in which every rank does the same kind of work: attention to combine, layer by layer.
//
//   barrier, no overlap  ranks -> [counts -> dispatch] -> experts of each GPU -> shared experts of each rank -> combine
//   shared_expert        shared experts on the SMs beside [counts -> dispatch]
//   two_batch            halves A and B in turn on every GPU's stream, as SGLang issues them:
//                        (shared A, attention A, gate A) (shared B, attention B, gate B) (experts A) (experts B) ...
//                        with dispatch and combine of one beside the kernels of the other, in order on one stream of
//                        exchanges; shared experts run beside their own half's combine
//   two_batch, decode    the same for steps without prompts, in the five stages of DeepSeek's and SGLang's decode order
//                        (deepseek-ai/open-infra-index, day 6; SGLang, operations_strategy.py): 1 attention up to the
//                        scores, 2 scores to gate, 3 dispatch sent, shared experts, 4 dispatch awaited, experts,
//                        combine sent, 5 combine awaited; half B two stages behind A. Dispatch is beside shared experts
//                        and stage 1 of the other half, combine beside the other half's stage 2.
//   pairwise             a rank's rows go to a GPU once both have passed the gate, through the GPU's port one after the
//                        other; a GPU's experts start when it has all its rows and every sender has sent. Combine
//                        alike, by pairs of ranks.
//   Ignores: order of a rank's sends; with pairwise, rows come from ranks in proportion to their tokens, and back in
//            proportion to the rows computed.
#pragma once

#include <cstdint>
#include <vector>

#include "models/step/step_model.h"
#include "sim/engine/task_graph.h"
#include "sim/scenario/execution_options.h"

namespace epsim {

// What a task of a step is.
struct StepTask {
  // clang-format off
  enum class Kind : std::uint8_t {
    kAttention, kPrepare, kScores,                        // of rank `index`; their time is in RankCost
    kGate, kPredict, kShared, kDense, kHead,              // likewise; kPrepare and kScores together are kAttention
    kCounts, kDispatch, kCombine,                         // of all GPUs
    kExperts,                                             // of GPU `index`
    kDispatchIn, kDispatchOut, kCombineIn, kCombineOut,   // pairwise: port of GPU or rank `index`, `from` a rank
    kIds, kPlan, kCopy, kCopied, kFirstExperts                     // policies that act in every step (policy_graph.h)
  };
  // clang-format on
  Kind kind = Kind::kAttention;
  LayerPart part = LayerPart::kOther;
  StepLane lane = StepLane::kCompute;
  std::int16_t batch = 0;   // 0 or 1
  std::int32_t layer = -1;  // MoE layer; the number of MoE layers stands for what no MoE layer has
  std::int32_t model_layer = -1;
  std::int32_t index = 0, from = 0;
  std::int32_t stretch = -1;  // of a dense layer: the MoE layer that follows, whose exchange its rank may be late for
};

struct StepGraph {
  TaskGraph graph;
  std::vector<StepTask> tasks;                // [task]
  std::vector<std::vector<TaskId>> of_layer;  // [batch x layers + MoE layer] tasks whose time MoeLayerCost has
  std::vector<TaskId> of_ranks;               // tasks whose time RankCost has
  int batches = 1;
};

// What an exchange or a copy takes from the kernels beside it.
std::vector<LaneSlowdown> slowdowns_of_kernels(const ExecutionOptions& options);

// `decode`: the order of two_batch for steps without prompts; no other overlap has one of its own.
StepGraph build_step_graph(const StepModel& model, StepSync sync, StepOverlap overlap, bool decode = false);

}  // namespace epsim
