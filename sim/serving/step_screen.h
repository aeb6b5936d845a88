// How well a per-step policy balances a scenario's loads: the routing of some steps is drawn, the policy acts in each
// layer, and the tokens each GPU computes are counted. Nothing is priced.
//
//   Models : steps in which every DP rank brings a full prefill chunk; the tokens of a GPU choose experts by the step's
//            mix, in whole assignments; a prediction that mixes the truth with the loads the scenario plans from
//            (stale popularity) and distorts every expert's popularity by a lognormal factor.
//   Source : Libra, Table 1, for the accuracy of such predictors (facts per model and data set).
#pragma once

#include "policies/step_policy.h"
#include "sim/serving/scenario.h"

namespace epsim {

struct StepScreenOptions {
  int steps = 2;
  double accuracy = 0.87;  // share of assignments predicted right: Libra's mean on Qwen3 is 0.88, on GLM-4.5 0.75
  // sigma of the lognormal factor on what the predictor gets wrong; assumed, as no paper states one
  double distortion = 0.2;
};

struct StepScore {
  double mean = 0;      // balancedness, mean over layers and steps
  double worst = 1;     // lowest layer mean
  int worst_layer = 0;  // MoE layer
  double home = 0;      // balancedness of the same steps without the policy
  int most_extra = 0;   // experts brought to one GPU in one layer, at most
};

StepScore screen_steps(const Scenario& scenario, const StepPolicy& policy, const StepScreenOptions& options);

// Weights that the policy keeps on every GPU for its double buffers: sets x (experts / GPUs + extra) experts.
Bytes buffer_bytes(const Scenario& scenario, const StepPolicy& policy, int extra);

}  // namespace epsim
