// What a run adds to a policy that acts in every step: how well it predicts, how long it plans, how fast weights
// travel.
//   Source : planning: the default is what a plan is allowed, for every policy. Measured on one core for 8 GPUs with 128,
//            160 and 256 experts (bench_policies, processor time): Libra 12, 14 and 38 us (libra_layer), Lina 14, 17
//            and 27 us, HarMoEny 8, 9 and 30 us (step_policy_layer); experiments/libra takes them. Copies: 380 of
//            450 GB/s by the copy engine of an H100 (p2pBandwidthLatencyTest, github.com/NVIDIA/nccl issue 1264).
//            Accuracy: Libra, Table 1, means over data sets on Qwen3.
#pragma once

#include <span>
#include <vector>

#include "policies/registry.h"
#include "sim/core/config.h"
#include "sim/core/units.h"

namespace epsim {

// A predictor of experts: step_routing.h has what it is taken to get wrong.
struct PredictorOptions {
  // Share of assignments predicted right: Libra's mean on Qwen3 is 0.88, on GLM-4.5 0.75.
  double accuracy = 0.88;
  // Sigma of the lognormal factor on the popularity that the predictor gets wrong; assumed, as no paper states one.
  double distortion = 0.2;
};

struct StepPolicyRun {
  PredictorOptions predictor;
  Seconds planning{50e-6};                 // host time from the ids to the plan, in every layer; origin `declared`
  double copy_efficiency = 380.0 / 450.0;  // share of a port's rate that copies of weights reach
};

// Those that the policy reads.
std::vector<std::span<const Key>> step_policy_run_keys(const StepPolicyEntry& policy);
const Key& step_policy_home_key();

// Reads planning_time and, of a policy that looks at predictions, accuracy and distortion, of one that copies experts
// copy_efficiency. The policy may have set defaults of its own; finish() is left to the caller, and refuses the others.
StepPolicyRun read_step_policy_run(ConfigReader& in, bool predicts, bool copies_experts);

}  // namespace epsim
