// Fits an operator's model to its points, and says how wrong it is on points it has not seen.
//
//   Models : coefficients of the physical terms by non-negative least squares on the relative error, the tile height by
//            trying those that kernels use; then a correction over a grid of log features, by penalised least squares
//            on the logarithm of measured over predicted, with outliers held down (Huber).
//   Held out: a fifth of the points, chosen by a hash of their parameters, takes part in neither step; repeated
//            measurements of one shape stay together. The stated errors are those of the very model that is written.
//            Of a grouped GEMM also all points of a width (a fifth of the measured sizes of experts at a time), and of a
//            model shape (one hidden size at a time): what is said of experts that nobody measured. Those errors are of
//            fits without them, over all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibration/least_squares.h"
#include "calibration/points.h"
#include "models/profile/fitted_op.h"

namespace epsim {

// Data-sheet rates of the machine the points were taken on.
struct MachineRates {
  double bf16_flops_per_s = 0;
  double fp8_flops_per_s = 0;
  double bytes_per_s = 0;
  double fp4_flops_per_s = 0;
  // Of products in an operator's dtype.
  double flops_per_s(const OpDtype& dtype) const;
};

// Whether a point takes part only in the test; depends on its parameters alone.
bool is_held_out(std::span<const double> parameters);

// Throws InputError, naming operator and column, for an operator that cannot be fitted (op_infos() lists those that
// can), a missing column, parameters that are zero, or fewer than min_points() points: four for each term, and at
// least 8.
std::size_t min_points(const OpInfo& info);
FittedOp fit_op(const PointTable& points, const MachineRates& rates, const std::string& source);

// Every operator of the file that can be fitted; `note` hears, in words, of those that cannot, and why. A file without
// any attention (`epsim-calibrate` measures none) gets the attention operators of the committed fit of the same GPU, if
// there is one; `note` hears which.
FittedProfile fit_profile(const PointFile& points, const MachineRates& rates,
                          const std::function<void(const std::string&)>& note);

// One operator or collective ("nccl_all_to_all, 8 GPUs") against points that need not be its profile's own.
struct ComparedErrors {
  std::string what;
  std::optional<ErrorSummary> errors;  // none: the profile lacks the operator
  double outside = 0;                  // share of the points outside what was measured
};

}  // namespace epsim
