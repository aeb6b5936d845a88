#include <algorithm>
#include <cmath>
#include <limits>

#include "calibration/measure/sweep_plan.h"
#include "sim/core/check.h"

namespace epsim::measure {
namespace {

using Points = std::vector<std::vector<double>>;

// Logarithms, each column scaled to [0, 1]; a column of one value is 0.
Points scaled_logs(const Points& points) {
  Points out = points;
  for (std::size_t c = 0; c < points.front().size(); ++c) {
    double low = std::numeric_limits<double>::infinity(), high = 0;
    for (auto& p : out) {
      p[c] = std::log2(1 + p[c]);
      low = std::min(low, p[c]);
      high = std::max(high, p[c]);
    }
    for (auto& p : out) {
      p[c] = high > low ? (p[c] - low) / (high - low) : 0;
    }
  }
  return out;
}

class Traversal {
 public:
  explicit Traversal(const Points& points)
      : at_(scaled_logs(points)), gap_(points.size(), std::numeric_limits<double>::infinity()), taken_(points.size()) {}

  void take(std::size_t i) {
    order_.push_back(i);
    taken_[i] = true;
    for (std::size_t j = 0; j < at_.size(); ++j) {
      double square = 0;
      for (std::size_t c = 0; c < at_[j].size(); ++c) {
        square += (at_[j][c] - at_[i][c]) * (at_[j][c] - at_[i][c]);
      }
      gap_[j] = std::min(gap_[j], square);
    }
  }

  // Few points that hold both ends of every column: always the one that holds the most ends still missing.
  void cover_ends() {
    std::vector<char> low(at_.front().size(), false), high = low;
    for (;;) {
      std::size_t best = 0;
      int most = 0;
      for (std::size_t i = 0; i < at_.size(); ++i) {
        const int ends = taken_[i] ? 0 : new_ends(i, low, high);
        if (ends > most) {
          most = ends;
          best = i;
        }
      }
      if (most == 0) {
        return;
      }
      for (std::size_t c = 0; c < low.size(); ++c) {
        low[c] = low[c] || at_[best][c] <= 0;
        high[c] = high[c] || at_[best][c] >= 1;
      }
      take(best);
    }
  }

  void fill(std::size_t most) {
    while (order_.size() < std::min(most, at_.size())) {
      std::size_t best = at_.size();
      for (std::size_t i = 0; i < at_.size(); ++i) {
        if (!taken_[i] && (best == at_.size() || gap_[i] > gap_[best])) {
          best = i;
        }
      }
      take(best);
    }
    for (std::size_t i = 0; i < at_.size(); ++i) {
      if (!taken_[i]) {
        order_.push_back(i);
      }
    }
  }

  std::vector<std::size_t> order() && { return std::move(order_); }

 private:
  int new_ends(std::size_t i, const std::vector<char>& low, const std::vector<char>& high) const {
    int ends = 0;
    for (std::size_t c = 0; c < low.size(); ++c) {
      ends += !low[c] && at_[i][c] <= 0;
      ends += !high[c] && at_[i][c] >= 1;
    }
    return ends;
  }

  Points at_;
  std::vector<double> gap_;  // square of the distance to the nearest point taken
  std::vector<char> taken_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::vector<std::size_t> coverage_order(const std::vector<std::vector<double>>& points, std::size_t most) {
  if (points.empty()) {
    return {};
  }
  Traversal traversal(points);
  traversal.cover_ends();
  traversal.fill(most);
  return std::move(traversal).order();
}

}  // namespace epsim::measure
