#include "calibration/correction_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "sim/core/check.h"
#include "sim/core/mapped.h"

namespace epsim {
namespace {

constexpr double kHuber = 0.1;
constexpr double kSmoothness = 0.1;
constexpr int kReweightings = 6;
constexpr double kTether = 1e-3;  // holds knots that no sample touches near their neighbours' line, and the rest near 0

std::vector<double> choose_knots(std::vector<double> values, std::size_t limit) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end(), [](double a, double b) { return b - a < 1e-6; }),
               values.end());
  if (values.size() <= limit) {
    return values;
  }
  std::vector<double> knots;
  for (std::size_t i = 0; i < limit; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(limit - 1);
    knots.push_back(values.front() + (values.back() - values.front()) * share);
  }
  return knots;
}

// Adds the squared second differences along every axis to the normal equations.
void add_smoothness(const LogGrid& grid, double weight, Eigen::MatrixXd& normal) {
  std::size_t stride = 1;
  for (std::size_t a = grid.axes().size(); a-- > 0;) {
    const std::size_t knots = grid.axes()[a].knots.size();
    for (std::size_t i = 0; i < grid.values().size(); ++i) {
      const std::size_t along = i / stride % knots;
      if (along + 2 < knots) {
        const std::array<Eigen::Index, 3> at{static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(i + stride),
                                             static_cast<Eigen::Index>(i + 2 * stride)};
        constexpr std::array<double, 3> kDifference{1, -2, 1};
        for (std::size_t r = 0; r < 3; ++r) {
          for (std::size_t c = 0; c < 3; ++c) {
            normal(at[r], at[c]) += weight * kDifference[r] * kDifference[c];
          }
        }
      }
    }
    stride *= knots;
  }
}

}  // namespace

std::array<std::size_t, 4> knot_limits(OpKind kind) {
  switch (kind) {
    case OpKind::kGroupedGemm:
      return {14, 5, 4, 3};
    case OpKind::kDenseGemm:
      return {14, 8, 6, 1};
    case OpKind::kMlaPrefill:
    case OpKind::kMlaDecode:
      return {12, 9, 6, 1};
    case OpKind::kGqaPrefill:
    case OpKind::kGqaDecode:
      return {11, 7, 4, 3};
    default:  // along one axis or two, what is measured is smooth
      return {12, 6, 1, 1};
  }
}

LogGrid fit_correction(std::span<const CorrectionSample> samples, const std::vector<std::string>& axes,
                       const std::array<std::size_t, 4>& limits) {
  EPSIM_CHECK(!samples.empty() && !axes.empty(), "a correction is fitted to samples");
  std::vector<LogGrid::Axis> all;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    all.push_back(
        {axes[a], choose_knots(mapped(samples, [&](const CorrectionSample& s) { return s.place[a]; }), limits[a])});
  }
  LogGrid grid(std::move(all));
  const auto size = static_cast<Eigen::Index>(grid.values().size());
  Eigen::MatrixXd fixed = Eigen::MatrixXd::Identity(size, size) * kTether;
  add_smoothness(grid, kSmoothness, fixed);
  const std::vector<LogGrid::Corners> corners =
      mapped(samples, [&](const CorrectionSample& s) { return grid.corners(s.place); });
  for (int round = 0; round < kReweightings; ++round) {
    Eigen::MatrixXd normal = fixed;
    Eigen::VectorXd right = Eigen::VectorXd::Zero(size);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double off = std::fabs(samples[i].log_ratio - grid.at(samples[i].place));
      const double weight = round == 0 || off <= kHuber ? 1.0 : kHuber / off;
      for (std::size_t r = 0; r < corners[i].count; ++r) {
        const auto row = static_cast<Eigen::Index>(corners[i].index[r]);
        const double scaled = weight * corners[i].weight[r];
        right(row) += scaled * samples[i].log_ratio;
        for (std::size_t c = 0; c < corners[i].count; ++c) {
          normal(row, static_cast<Eigen::Index>(corners[i].index[c])) += scaled * corners[i].weight[c];
        }
      }
    }
    const Eigen::VectorXd x = normal.ldlt().solve(right);
    std::copy(x.begin(), x.end(), grid.values().begin());
  }
  return grid;
}

}  // namespace epsim
