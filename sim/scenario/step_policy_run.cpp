#include "sim/scenario/step_policy_run.h"

namespace epsim {
namespace {

constexpr StepPolicyRun kRunDefaults{};

constexpr KeyTable kPredictorKeys({
    {"accuracy", key::number(kShare), key::is(kRunDefaults.predictor.accuracy),
     "Share of assignments predicted right."},
    {"distortion", key::number(), key::is(kRunDefaults.predictor.distortion),
     "Sigma of the error in what is predicted wrong."},
});
constexpr KeyTable kCopyKeys({
    {"copy_efficiency", key::number(kPositiveShare), key::is(kRunDefaults.copy_efficiency),
     "Share of a port's rate that weight copies reach: 380 of 450 GB/s."},
});
constexpr KeyTable kStepPolicyKeys({
    {"planning_time", key::time(), key::is(kRunDefaults.planning), "Host time per layer from routing to plan."},
    {"home", key::text(), key::by("experts in order"),
     "The placement, or a label of `policies`, that experts lie by; without copies but for lplb and waterfill."},
});

}  // namespace

std::vector<std::span<const Key>> step_policy_run_keys(const StepPolicyEntry& policy) {
  std::vector<std::span<const Key>> out;
  if (policy.predicts) {
    out.emplace_back(kPredictorKeys);
  }
  out.emplace_back(kStepPolicyKeys);
  if (policy.copies_experts) {
    out.emplace_back(kCopyKeys);
  }
  return out;
}

const Key& step_policy_home_key() { return kStepPolicyKeys["home"]; }

StepPolicyRun read_step_policy_run(ConfigReader& in, bool predicts, bool copies_experts) {
  StepPolicyRun out;
  if (predicts) {
    out.predictor.accuracy = in.read<double>(kPredictorKeys["accuracy"]);
    out.predictor.distortion = in.read<double>(kPredictorKeys["distortion"]);
  }
  out.planning = in.read<Seconds>(kStepPolicyKeys["planning_time"]);
  if (copies_experts) {
    out.copy_efficiency = in.read<double>(kCopyKeys["copy_efficiency"]);
  }
  return out;
}

}  // namespace epsim
