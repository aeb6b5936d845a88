// The task graph of a step under a policy that acts in every layer, as its ExecutionProfile declares it.
//
//   all policies   ranks: dense layers, attention, gate; then all GPUs exchange the ids of the chosen experts (one
//                  latency), from which the host plans
//   prefetching    (Libra, Lina) the plan for layer l + 1 is made in layer l; its copies run on the copy engines from
//   then
//                  on, and the experts of layer l + 1 wait for what is late. The first MoE layer has no copies.
//   on demand      (HarMoEny, least-loaded EP, FasterMoE) the plan stands between gate and dispatch; copies start with
//   it;
//                  a GPU computes its own experts first and those it fetched when they are there
//   Libra          tokens that live with their expert are computed while all tokens are gathered and the host plans;
//                  the others when all three are done. Combine is a reduce-scatter. The gate of the next layer runs on
//                  the GPU too.
//   Ignores: two-batch and shared-expert overlap, copies of a GPU's own experts into a double buffer.
#pragma once

#include "models/step/step_model.h"
#include "policies/per_step/step_policy.h"
#include "sim/step/step_graph.h"

namespace epsim {

StepGraph build_policy_graph(const StepModel& model, const ExecutionProfile& profile);

}  // namespace epsim
