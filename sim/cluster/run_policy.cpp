#include "sim/cluster/run_policy.h"

#include <fmt/format.h>

#include <utility>

#include "sim/cluster/run_details.h"
#include "sim/cluster/simulate.h"
#include "sim/core/refuse.h"
#include "sim/step/drafter.h"

namespace epsim {
namespace {

void refuse_extrapolation(const RunResult& run) {
  const double share = run.time.by_origin[static_cast<std::size_t>(Origin::kExtrapolated)] / run.time.total;
  refuse_if(run.time.total.count() > 0 && share > 0, "strict-calibration",
            fmt::format("{}: {:.1f} % of the step time was priced outside what was measured, or from other hardware's "
                        "measurements. `epsim calibrate show` says what was; without --strict-calibration the run is "
                        "accepted and the share is in its summary.",
                        run.label, share * 100));
}

// Instances of the same pool draw the same routing in steps of the same number.
std::vector<ServedInstance> start_instances(const Scenario& s, const PreparedRun& prepared, StepRecorder* recorder) {
  std::vector<ServedInstance> out;
  for (const PreparedInstance& pool : prepared.pools) {
    for (int i = 0; i < pool.pool.instances; ++i) {
      ServedInstance instance{&pool, std::make_unique<ServedModel>(s, pool, recorder), std::nullopt};
      if (pool.serving.role != InstanceRole::kWhole) {
        instance.lanes.emplace(pool.pool, s.network.inter, s.model, prepared.pools.back().pool.parallelism.attention_tp,
                               faults_of(s.faults, static_cast<int>(out.size())));
      }
      out.push_back(std::move(instance));
    }
  }
  return out;
}

std::vector<InstanceSpec> specs_of(const Scenario& s, const std::vector<ServedInstance>& instances) {
  std::vector<InstanceSpec> out;
  for (const ServedInstance& instance : instances) {
    const InstancePool& pool = instance.prepared->pool;
    InstanceSpec spec{.options = instance.prepared->serving, .model = instance.model.get()};
    const DispatchOptions& dispatch = pool.dispatch;
    for (const bool prompts : {false, true}) {
      const DispatchOptions& way = !prompts && dispatch.decode_steps ? *dispatch.decode_steps : dispatch;
      spec.eager[prompts] = {.batch = eager_work(s.model, pool.parallelism, way),
                             .drafter = drafter_launches(s.model, pool.parallelism, way,
                                                         drafter_passes(pool.serving.speculative, prompts))};
    }
    spec.changes = hardware_changes(faults_of(s.faults, static_cast<int>(out.size())), pool.cluster, pool.parallelism);
    spec.gpus = pool.cluster.gpus();
    if (instance.lanes) {
      spec.path = &*instance.lanes;
      spec.ranks_per_lane = instance.lanes->ranks_per_lane();
    }
    out.push_back(std::move(spec));
  }
  return out;
}

template <class Trace>
RunResult run_on(const Scenario& scenario, const PreparedRun& prepared, Trace&& requests, const RunControl& control) {
  const Scenario& s = system_of(scenario, prepared.last().policy);
  std::vector<ServedInstance> instances = start_instances(s, prepared, control.recorder);
  const Router router = s.deployment.single() ? s.serving.router : s.deployment.router;
  RunResult result =
      simulate(std::forward<Trace>(requests), specs_of(s, instances), router, control, s.deployment.retry_limit);
  add_details(s, instances, result);
  if (control.strict_calibration) {
    refuse_extrapolation(result);
  }
  return result;
}

}  // namespace

RunResult run_prepared(const Scenario& scenario, const PreparedRun& prepared, const RequestTrace& requests,
                       const RunControl& control) {
  return run_on(scenario, prepared, requests, control);
}

RunResult run_prepared(const Scenario& scenario, const PreparedRun& prepared, RequestTrace&& requests,
                       const RunControl& control) {
  return run_on(scenario, prepared, std::move(requests), control);
}

RunResult run_policy(const Scenario& s, const PolicyChoice& policy, const RunControl& control) {
  return run_prepared(s, prepare_run(s, policy), s.requests, control);
}

}  // namespace epsim
