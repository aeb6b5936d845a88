#include "sim/scenario/step_policy_run.h"

namespace epsim {

StepPolicyRun read_step_policy_run(const std::string& kind, ConfigReader& in) {
  StepPolicyRun out;
  out.predictor.accuracy = in.optional<double>("accuracy", kind == "lina" ? 0.44 : 0.88, Bound::kNotNegative);
  in.check(out.predictor.accuracy <= 1.0, "accuracy", "a share of right predictions is at most 1.");
  out.predictor.distortion = in.optional<double>("distortion", out.predictor.distortion, Bound::kNotNegative);
  out.planning = in.optional<Seconds>("planning_time", out.planning, Bound::kNotNegative);
  out.copy_efficiency = in.optional<double>("copy_efficiency", out.copy_efficiency, Bound::kPositive);
  in.check(out.copy_efficiency <= 1.0, "copy_efficiency", "a share of the link's rate is at most 1.");
  return out;
}

}  // namespace epsim
