#include "sim/scenario/deployment.h"

namespace epsim {

int Deployment::instances() const {
  int sum = single() ? 1 : 0;
  for (const InstancePool& pool : pools) {
    sum += pool.instances;
  }
  return sum;
}

}  // namespace epsim
