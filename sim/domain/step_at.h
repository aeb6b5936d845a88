// Which step of an instance, and when it begins.
#pragma once

#include <cstdint>

#include "sim/core/units.h"

namespace epsim {

struct StepAt {
  std::int64_t number = 0;
  Ticks start{};                                                                 // from the start of the run
  StepAt(std::int64_t step, Ticks begins = {}) : number(step), start(begins) {}  // implicit: time seldom matters
};

}  // namespace epsim
