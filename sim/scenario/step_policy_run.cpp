#include "sim/scenario/step_policy_run.h"

namespace epsim {
namespace {

constexpr StepPolicyRun kOwn{};

constexpr KeyTable kKeys({
    {"accuracy", key::number(kShare), key::is(kOwn.predictor.accuracy), "Share of assignments predicted right."},
    {"distortion", key::number(), key::is(kOwn.predictor.distortion), "Sigma of the error in what is predicted wrong."},
    {"planning_time", key::time(), key::is(kOwn.planning), "Host time per layer from routing to plan."},
    {"copy_efficiency", key::number(kPositiveShare), key::is(kOwn.copy_efficiency),
     "Share of a port's rate that weight copies reach: 380 of 450 GB/s."},
});

}  // namespace

std::span<const Key> step_policy_run_keys() { return kKeys; }

StepPolicyRun read_step_policy_run(ConfigReader& in) {
  StepPolicyRun out;
  out.predictor.accuracy = in.read<double>(kKeys["accuracy"]);
  out.predictor.distortion = in.read<double>(kKeys["distortion"]);
  out.planning = in.read<Seconds>(kKeys["planning_time"]);
  out.copy_efficiency = in.read<double>(kKeys["copy_efficiency"]);
  return out;
}

}  // namespace epsim
