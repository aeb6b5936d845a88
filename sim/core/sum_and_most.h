// The sum and the greatest of a row of numbers, in one pass that does not wait for itself.
#pragma once

#include <span>

namespace epsim {

struct SumAndMost {
  double sum = 0, most = 0;  // most: 0 when all are below
};
// Adds in eight lanes, on every machine in the same order.
SumAndMost sum_and_most(std::span<const double> values);

}  // namespace epsim
