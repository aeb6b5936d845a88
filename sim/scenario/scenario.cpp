#include "sim/scenario/scenario.h"

namespace epsim {

int all_gpus(const Scenario& s) {
  int sum = s.deployment.single() ? s.cluster.gpus() : 0;
  for (const InstancePool& pool : s.deployment.pools) {
    sum += pool.instances * pool.cluster.gpus();
  }
  return sum;
}

std::vector<InstancePool> pools_of(const Scenario& s) {
  if (s.deployment.single()) {
    return {{s.serving.role, 1, s.cluster, s.parallelism, s.memory, s.dispatch, s.serving}};
  }
  return s.deployment.pools;
}

Scenario scenario_of(const Scenario& scenario, const InstancePool& pool) {
  Scenario out = scenario;
  out.cluster = pool.cluster;
  out.parallelism = pool.parallelism;
  out.memory = pool.memory;
  out.dispatch = pool.dispatch;
  out.serving = pool.serving;
  out.deployment = {};
  out.deployment.after_loss = scenario.deployment.after_loss;
  out.deployment.reload_rate = scenario.deployment.reload_rate;
  return out;
}

}  // namespace epsim
