// What a run adds to a policy that acts in every step: how well it predicts, how long it plans, how fast weights
// travel.
//   Source : planning: Libra's two algorithms take 8 to 50 us on one core here (bench_policies libra_layer, 8 GPUs and
//   128
//            to 256 experts); the upper end is the default, for every policy. Copies: 380 of 450 GB/s by the copy
//            engine of an H100 (p2pBandwidthLatencyTest, github.com/NVIDIA/nccl issue 1264). Accuracy: Libra, Table 1,
//            means over data sets on Qwen3.
#pragma once

#include <string>

#include "sim/core/config.h"
#include "sim/core/units.h"
#include "sim/serving/step_routing.h"

namespace epsim {

struct StepPolicyRun {
  PredictorOptions predictor;
  Seconds planning{50e-6};                 // host time from the ids to the plan, in every layer; origin `declared`
  double copy_efficiency = 380.0 / 450.0;  // share of a port's rate that copies of weights reach
};

// Reads accuracy, distortion, planning_time and copy_efficiency of a policy of this kind; leaves finish() to the
// caller.
StepPolicyRun read_step_policy_run(const std::string& kind, ConfigReader& in);

}  // namespace epsim
