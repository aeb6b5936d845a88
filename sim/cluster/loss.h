// Hardware that an instance loses or gets back during a run, as the fleet sees it.
#pragma once

#include <vector>

#include "sim/core/units.h"

namespace epsim {

struct Loss {
  Ticks at{};
  Ticks recovery{};            // for which the instance then begins no step: until it is noticed and the rest regrouped
  std::vector<int> ranks;      // DP ranks that go with it
  bool fatal = false;          // the instance cannot go on: no rank is left
  std::vector<int> back = {};  // DP ranks that are whole again
};

}  // namespace epsim
