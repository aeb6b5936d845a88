#include "sim/domain/step_loads.h"

#include <doctest/doctest.h>

namespace epsim {
namespace {

TEST_CASE("rows of one step lie layer by layer, source by source") {
  StepLoads loads;
  loads.resize(2, 3, 4);
  CHECK(loads.per_token.size() == 24);
  for (int layer = 0; layer < 2; ++layer) {
    for (int source = 0; source < 3; ++source) {
      CHECK(loads.row(layer, source).size() == 4);
      loads.row(layer, source)[3] = static_cast<float>(10 * layer + source);
    }
  }
  const StepLoads& same = loads;
  CHECK(same.row(1, 2)[3] == 12.0F);
  CHECK(loads.per_token[23] == 12.0F);  // (1 * 3 + 2) * 4 + 3
  CHECK(loads.per_token[7] == 1.0F);    // (0 * 3 + 1) * 4 + 3
}

}  // namespace
}  // namespace epsim
