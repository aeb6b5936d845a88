// Small residencies for tests of per-step policies.
#pragma once

#include <utility>
#include <vector>

#include "policies/residency.h"

namespace epsim::test {

// Experts in order, experts / gpus on each GPU.
inline Residency contiguous(int experts, int gpus) {
  std::vector<int> homes;
  for (int e = 0; e < experts; ++e) {
    homes.push_back(e / (experts / gpus));
  }
  return {std::move(homes), gpus};
}

// Experts that a GPU holds away from home.
inline int extras(const Residency& held, int gpu) {
  int count = 0;
  for (int e = 0; e < held.experts(); ++e) {
    count += held.holds(e, gpu) && held.home_of(e) != gpu ? 1 : 0;
  }
  return count;
}

}  // namespace epsim::test
