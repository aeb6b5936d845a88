// Coefficients of a fit's terms, and what the fit leaves.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/profile/fitted_op.h"

namespace epsim {

// Median, 95th percentile and worst of |predicted / measured - 1|.
ErrorSummary summarise_errors(std::vector<double> relative_errors);

// Least squares with coefficients that are not negative, by trying every set of active columns: exact, for few columns.
// Rows of `a` are in row-major order, `columns` to a row (at most 6).
std::vector<double> non_negative_least_squares(std::span<const double> a, std::span<const double> b,
                                               std::size_t columns);

}  // namespace epsim
