// How a caller follows a capacity search, and where its finished runs are kept.
#pragma once

#include <atomic>
#include <functional>

#include "sim/study/capacity_result.h"
#include "sim/study/job_store.h"

namespace epsim {

struct CapacityControl {
  const std::atomic<bool>* stop = nullptr;
  const JobStore* store = nullptr;
  // One at a time: a question that was answered, with instances.
  std::function<void(const CapacityDesign&, int instances, const CapacityAnswer&)> on_answer = {};
  std::function<void()> on_settled = {};                                // likewise: another design has a verdict
  std::function<void(const std::vector<CapacityPool>&)> on_found = {};  // likewise: it holds, the best yet of its chain
};

}  // namespace epsim
