#include "sim/scenario/step_policy_run.h"

namespace epsim {
namespace {

constexpr StepPolicyRun kRunDefaults{};

constexpr KeyTable kStepPolicyKeys({
    {"accuracy", key::number(kShare), key::is(kRunDefaults.predictor.accuracy),
     "Share of assignments predicted right."},
    {"distortion", key::number(), key::is(kRunDefaults.predictor.distortion),
     "Sigma of the error in what is predicted wrong."},
    {"planning_time", key::time(), key::is(kRunDefaults.planning), "Host time per layer from routing to plan."},
    {"copy_efficiency", key::number(kPositiveShare), key::is(kRunDefaults.copy_efficiency),
     "Share of a port's rate that weight copies reach: 380 of 450 GB/s."},
    {"home", key::text(), key::by("experts in order"),
     "The placement, or a label of `policies`, that experts lie by; without copies but for lplb and waterfill."},
});

}  // namespace

std::span<const Key> step_policy_run_keys() { return kStepPolicyKeys; }

const Key& step_policy_home_key() { return kStepPolicyKeys["home"]; }

StepPolicyRun read_step_policy_run(ConfigReader& in) {
  StepPolicyRun out;
  out.predictor.accuracy = in.read<double>(kStepPolicyKeys["accuracy"]);
  out.predictor.distortion = in.read<double>(kStepPolicyKeys["distortion"]);
  out.planning = in.read<Seconds>(kStepPolicyKeys["planning_time"]);
  out.copy_efficiency = in.read<double>(kStepPolicyKeys["copy_efficiency"]);
  return out;
}

}  // namespace epsim
