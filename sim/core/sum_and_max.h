// The sum and the greatest of a row of numbers, in one pass that does not wait for itself.
#pragma once

#include <span>

namespace epsim {

struct SumAndMax {
  double sum = 0, max = 0;  // max: 0 when all are below
};
// Adds in eight lanes, on every machine in the same order.
SumAndMax sum_and_max(std::span<const double> values);

}  // namespace epsim
