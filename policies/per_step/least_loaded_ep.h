// Least-loaded expert parallelism: what does not fit at an expert's home spills to the lightest GPUs, weights included.
//   Source : SalesforceAIResearch/LeastLoadedEP at 11730c8 (arXiv 2601.17111); behaviour only.
#pragma once

#include <cstdint>

#include "policies/residency.h"

namespace epsim {

struct LeastLoadedOptions {
  double capacity_factor = 1.1;   // a GPU takes at most this many times the (whole-number) mean
  std::int64_t min_chunk = 1024;  // a smaller spill is made only when it is the expert's last
  double min_imbalance = 1.3;     // max / mean below or at which everything stays at home; <= 1 plans always
};

TokenAssignment least_loaded_assign(const RequestMatrix& requests, const Residency& home,
                                    const LeastLoadedOptions& options);

}  // namespace epsim
