#include "models/profile/log_grid.h"

#include <algorithm>
#include <stdexcept>

#include "sim/core/check.h"

namespace epsim {

LogGrid::LogGrid(std::vector<Axis> axes) : axes_(std::move(axes)) {
  if (axes_.empty() || axes_.size() > kMaxAxes) {
    throw std::invalid_argument("a grid has 1 to 4 axes");
  }
  std::size_t size = 1;
  for (const Axis& axis : axes_) {
    const bool grows =
        std::adjacent_find(axis.knots.begin(), axis.knots.end(), std::greater_equal<>()) == axis.knots.end();
    if (axis.knots.empty() || !grows) {
      throw std::invalid_argument("the knots of '" + axis.name + "' must grow, and be at least one");
    }
    size *= axis.knots.size();
  }
  values_.assign(size, 0.0);
}

LogGrid::Corners LogGrid::corners(std::span<const double> place) const {
  EPSIM_CHECK(place.size() == axes_.size(), "one feature per axis of the grid");
  Corners out;
  out.index[0] = 0;
  out.weight[0] = 1;
  out.count = 1;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const std::vector<double>& knots = axes_[a].knots;
    const double x = std::clamp(place[a], knots.front(), knots.back());
    const auto above = std::upper_bound(knots.begin(), knots.end(), x);
    const auto right = static_cast<std::size_t>(above - knots.begin());
    const std::size_t left = right == 0 ? 0 : right - 1;
    const bool between = right < knots.size() && x > knots[left];
    const double share = between ? (x - knots[left]) / (knots[right] - knots[left]) : 0.0;
    const std::size_t before = out.count;
    for (std::size_t c = 0; c < before; ++c) {
      const double weight = out.weight[c];
      out.index[c] = out.index[c] * knots.size() + left;
      out.weight[c] = weight * (1 - share);
      if (between) {
        out.index[out.count] = out.index[c] + 1;
        out.weight[out.count] = weight * share;
        ++out.count;
      }
    }
  }
  return out;
}

double LogGrid::at(std::span<const double> place) const {
  const Corners around = corners(place);
  double sum = 0;
  for (std::size_t c = 0; c < around.count; ++c) {
    sum += around.weight[c] * values_[around.index[c]];
  }
  return sum;
}

}  // namespace epsim
