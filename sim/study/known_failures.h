// What a capacity search has learnt of whole deployments.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/study/capacity_result.h"

namespace epsim {

// Deployments, and prefill pools alone, that are known to fail: the chain does not ask for them.
class KnownFailures {
 public:
  void add(const std::vector<CapacityPool>& pools, CapacityAnswer answer);
  const CapacityAnswer* find(const std::vector<CapacityPool>& pools) const;

 private:
  std::map<std::string, CapacityAnswer> answers_;  // by designs and instances
};

}  // namespace epsim
