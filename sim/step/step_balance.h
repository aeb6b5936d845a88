// How well a per-step policy balances a scenario's loads: the routing of some steps is drawn, the policy acts in each
// layer, and the tokens each GPU computes are counted. Nothing is priced.
//
//   Models : steps in which every DP rank brings a full prefill chunk; requests of step_routing.h, and predictions as
//            good as the policy's entry in the scenario says (`accuracy`, `distortion`).
#pragma once

#include "sim/scenario/scenario.h"

namespace epsim {

struct StepBalance {
  double mean = 0;      // balancedness, mean over layers and steps
  double worst = 1;     // lowest layer mean
  int worst_layer = 0;  // MoE layer
  double home = 0;      // balancedness of the same steps without the policy
  int most_extra = 0;   // experts brought to one GPU in one layer, at most
};

// `policy` acts in every step of the pool's instances. Draws `steps` steps.
StepBalance step_balance(const Scenario& scenario, const InstancePool& pool, const PolicyChoice& policy, int steps = 2);

// Weights that the policy keeps on every GPU: sets of double buffers x (experts / GPUs + extra) experts, and its slots. Of
// a layer no GPU can hold more than the model's experts: extras and slots are at most those of the other GPUs.
Bytes buffer_bytes(const MoeSpec& model, int gpus, const StepPolicy& policy);

}  // namespace epsim
