// Gaps between consecutive tokens of one request (ITL), pooled over requests. Requests that decode together share a
// gap, so that a step adds one sample with a count, not one per token.
#pragma once

#include <cstdint>

#include "sim/core/statistics.h"
#include "sim/core/units.h"

namespace epsim {

class GapSamples {
 public:
  void add(Ticks gap, std::int64_t count) {
    if (gap != gap_) {
      flush();
      gap_ = gap;
    }
    count_ += count;
    total_ += count;
  }
  // Number of gaps, equal ones included.
  std::int64_t count() const { return total_; }
  // In seconds.
  Summary summary() {
    flush();
    return samples_.summary();
  }

 private:
  void flush() {
    samples_.add(to_seconds(gap_).count(), count_);
    count_ = 0;
  }
  WeightedSamples samples_;
  Ticks gap_{};  // of the latest samples, held back since the next rank of the step often has the same
  std::int64_t count_ = 0;
  std::int64_t total_ = 0;
};

}  // namespace epsim
