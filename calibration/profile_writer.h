// Fitted profiles as text: the fit.yaml that epsim prices from, its table of errors, and what `show` prints.
#pragma once

#include <string>

#include "calibration/points.h"
#include "models/profile/fitted_op.h"

namespace epsim {

// YAML that read_fitted_profile() reads back to the same prices, to 4 digits of every factor.
std::string profile_yaml(const FittedProfile& profile);

// One line per operator (a grouped GEMM: one for even groups, one for uneven ones): op, points held out, median, 95th
// percentile and worst relative error, and the same of repeated rows of the source.
std::string errors_csv(const FittedProfile& profile);

// For people.
std::string profile_text(const FittedProfile& profile);
std::string points_text(const PointFile& points);

// One operator's points: its parameters, time_s, rel_error, repeats.
std::string points_csv(const PointTable& table);

}  // namespace epsim
