// Which step of an instance, and when it begins.
#pragma once

#include <cstdint>

#include "sim/core/units.h"

namespace epsim {

struct StepAt {
  std::int64_t number = 0;
  Ticks start{};               // from the start of the run
  bool shared_beside = false;  // shared experts run on a stream of their own, beside gate and routed experts
  StepAt(std::int64_t step, Ticks begins = {}, bool beside = false)  // implicit: time seldom matters
      : number(step), start(begins), shared_beside(beside) {}
};

}  // namespace epsim
