#include "sim/scenario/deployment_options.h"

namespace epsim {

int DeploymentOptions::instances() const {
  int sum = single() ? 1 : 0;
  for (const InstancePool& pool : pools) {
    sum += pool.instances;
  }
  return sum;
}

}  // namespace epsim
