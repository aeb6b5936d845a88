// The correction of a fitted operator: a grid of log factors through scattered residuals.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "models/profile/log_grid.h"
#include "models/profile/op_shapes.h"

namespace epsim {

struct CorrectionSample {
  std::vector<double> place;  // log2 features
  double log_ratio = 0;       // of measured over predicted
};

// Too few points tell nothing of how kernels differ from the physical terms by shape.
inline constexpr std::size_t kFewestToCorrect = 20;

// At most so many knots per axis of an operator.
std::array<std::size_t, 4> knot_limits(OpKind kind);

// Minimises the sum of squared residuals over the samples plus a tenth of the squared second differences of the grid;
// residuals beyond 0.1 count linearly (Huber 1964). Knots lie at the samples' own values where these are few,
// else evenly between the least and the greatest.
LogGrid fit_correction(std::span<const CorrectionSample> samples, const std::vector<std::string>& axes,
                       const std::array<std::size_t, 4>& limits);

}  // namespace epsim
