// A smooth correction over several features: values at the knots of a grid, multilinear between them.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace epsim {

class LogGrid {
 public:
  static constexpr std::size_t kMaxAxes = 4;
  struct Axis {
    std::string name;
    std::vector<double> knots;  // growing; in log2 of the feature
  };
  // The knots around a place, and how much each counts. Weights sum to 1.
  struct Corners {
    std::array<std::size_t, 16> index;
    std::array<double, 16> weight;
    std::size_t count = 0;
  };

  LogGrid() = default;
  // Zero everywhere. Throws std::invalid_argument for no axis, more than kMaxAxes, or knots that do not grow.
  explicit LogGrid(std::vector<Axis> axes);

  const std::vector<Axis>& axes() const { return axes_; }
  const std::vector<double>& values() const { return values_; }  // last axis fastest
  std::vector<double>& values() { return values_; }

  // `place` has one log2 feature per axis. Beyond the first and the last knot the value stays that of the edge.
  double at(std::span<const double> place) const;
  Corners corners(std::span<const double> place) const;

 private:
  std::vector<Axis> axes_;
  std::vector<double> values_;
};

}  // namespace epsim
