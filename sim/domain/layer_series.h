// A value of every layer in every step, in bounded memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace epsim {

// Columns of consecutive steps. A column is one step until there are kMostColumns of them; then neighbours are merged
// and a column is two steps, and so on: a run of any length has between half of kMostColumns and all of them.
class LayerSeries {
 public:
  static constexpr int kMostColumns = 128;

  LayerSeries() = default;
  explicit LayerSeries(int layers)
      : layers_(static_cast<std::size_t>(layers)), sums_(layers_ * static_cast<std::size_t>(kMostColumns), 0.0) {}

  // Adds to the value of a layer in the step that is going on.
  void add(int layer, double value) { sums_[cell(static_cast<int>(steps_ / per_column_), layer)] += value; }
  void end_step() {
    if (++steps_ == per_column_ * kMostColumns) {
      fold();
    }
  }

  int layers() const { return static_cast<int>(layers_); }
  int columns() const { return static_cast<int>((steps_ + per_column_ - 1) / per_column_); }
  std::int64_t first_step(int column) const { return column * per_column_; }
  std::int64_t steps(int column) const {
    return std::min(per_column_, steps_ - first_step(column));
  }  // the last: fewer
  // Mean over the column's steps.
  double mean(int column, int layer) const { return sums_[cell(column, layer)] / static_cast<double>(steps(column)); }

 private:
  std::size_t cell(int column, int layer) const {
    return static_cast<std::size_t>(column) * layers_ + static_cast<std::size_t>(layer);
  }
  void fold() {
    for (int c = 0; c < kMostColumns; ++c) {
      for (int l = 0; l < layers(); ++l) {
        const double value = sums_[cell(c, l)];
        sums_[cell(c, l)] = 0;
        sums_[cell(c / 2, l)] += value;
      }
    }
    per_column_ *= 2;
  }

  std::size_t layers_ = 0;
  std::int64_t steps_ = 0, per_column_ = 1;
  std::vector<double> sums_;  // [column][layer]
};

}  // namespace epsim
