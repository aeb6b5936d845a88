// A figure over seeds.
#pragma once

#include <span>

#include "sim/report/format.h"

namespace epsim {

// Mean over seeds and half the width of its 95 % interval (Student's t); the latter is undefined for a single seed.
struct Estimate {
  double mean = kUndefined, half_width = kUndefined;
  double low() const { return mean - half_width; }
  double high() const { return mean + half_width; }
};
Estimate estimate(std::span<const double> by_seed);

}  // namespace epsim
