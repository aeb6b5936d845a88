// The task graph of a step, made from the order of its stages (step_order.h).
//
//   barrier    an exchange is one task of all GPUs
//   pairwise   a rank's rows go to a GPU once both have passed the gate, through the GPU's port one after the other; a
//              GPU's experts start when it has all its rows and every sender has sent. Combine alike, by pairs of ranks.
//   Ignores: order of a rank's sends; with pairwise, rows come from ranks in proportion to their tokens, and back in
//            proportion to the rows computed.
#pragma once

#include <cstdint>
#include <vector>

#include "models/step/step_model.h"
#include "sim/engine/task_graph.h"
#include "sim/step/step_order.h"

namespace epsim {

// What a task of a step is.
struct StepTask {
  Stage stage = Stage::kAttention;
  std::int16_t batch = 0;   // 0 or 1
  std::int32_t layer = -1;  // MoE layer; the number of MoE layers stands for what no MoE layer has
  std::int32_t model_layer = -1;
  std::int32_t index = 0, from = 0;  // GPU or rank; `from`: the rank whose rows a port takes in
  std::int32_t stretch = -1;  // of a dense layer: the MoE layer that follows, whose exchange its rank may be late for
};

struct StepGraph {
  TaskGraph graph;
  std::vector<StepTask> tasks;                // [task]
  std::vector<std::vector<TaskId>> of_layer;  // [batch x layers + MoE layer] tasks whose time the layer decides
  std::vector<TaskId> of_ranks;               // tasks whose time RankCost has
  int batches = 1;
};

StepGraph build_step_graph(const StepModel& model, const StepOrder& order, StepSync sync = StepSync::kBarrier);

}  // namespace epsim
