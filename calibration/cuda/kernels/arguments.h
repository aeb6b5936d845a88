// What the kernels take, for the host's side of a launch. Layouts stand with the kernels.
#pragma once

#include <cstdint>

namespace epsim::measure {

// Up to kRows rows of one group.
struct RowTile {
  int group = 0, first_row = 0, rows = 0;
};

}  // namespace epsim::measure
