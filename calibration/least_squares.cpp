#include "calibration/least_squares.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "sim/core/check.h"
#include "sim/core/statistics.h"

namespace epsim {

ErrorSummary summarise_errors(std::vector<double> errors) {
  ErrorSummary out;
  out.points = static_cast<std::int64_t>(errors.size());
  if (errors.empty()) {
    return out;
  }
  std::sort(errors.begin(), errors.end());
  out.median = errors[quantile_position(0.5, errors.size())];
  out.p95 = errors[quantile_position(0.95, errors.size())];
  out.worst = errors.back();
  return out;
}

std::vector<double> non_negative_least_squares(std::span<const double> a, std::span<const double> b,
                                               std::size_t columns) {
  EPSIM_CHECK(columns > 0 && columns <= 6 && a.size() == b.size() * columns, "one row of coefficients per value");
  const auto rows = static_cast<Eigen::Index>(b.size());
  const auto width = static_cast<Eigen::Index>(columns);
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const RowMajor> matrix(a.data(), rows, width);
  const Eigen::Map<const Eigen::VectorXd> wanted(b.data(), rows);
  const Eigen::MatrixXd normal = matrix.transpose() * matrix;
  const Eigen::VectorXd right = matrix.transpose() * wanted;
  Eigen::VectorXd best = Eigen::VectorXd::Zero(width);
  double least = 0;  // of x'Nx - 2x'r, which is 0 at x = 0
  for (unsigned active = 1; active < (1U << columns); ++active) {
    // Columns that are not active keep a coefficient of 0: their row of the system says so.
    Eigen::MatrixXd system = normal;
    Eigen::VectorXd sides = right;
    for (Eigen::Index c = 0; c < width; ++c) {
      if ((active >> c & 1U) == 0) {
        system.row(c).setZero();
        system.col(c).setZero();
        system(c, c) = 1;
        sides(c) = 0;
      }
    }
    const Eigen::VectorXd x = system.ldlt().solve(sides);
    if (!x.allFinite() || (x.array() < 0).any()) {
      continue;
    }
    const double value = x.dot(normal * x) - 2 * x.dot(right);
    if (value < least) {
      least = value;
      best = x;
    }
  }
  return {best.begin(), best.end()};
}

}  // namespace epsim
