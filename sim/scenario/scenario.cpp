#include "sim/scenario/scenario.h"

#include "sim/domain/affinity.h"

namespace epsim {

UsedTogether used_together(const Scenario& s) {
  for (const LoadWindow* window : {&s.run_window, &s.plan_window}) {
    if (const TokenSample* tokens = window->tokens(); tokens != nullptr) {
      return {.tokens = tokens};
    }
  }
  return {.loads = &s.run_window,
          .top_k = s.model.top_k,
          .groups = s.model.expert_groups,
          .top_groups = s.model.top_groups};
}

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

}  // namespace epsim
