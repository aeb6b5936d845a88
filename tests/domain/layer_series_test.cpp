#include "sim/domain/layer_series.h"

#include <doctest/doctest.h>

namespace epsim {
namespace {

// Layer 0 has the step's number as its value, layer 1 always 2.
LayerSeries series_of(std::int64_t steps) {
  LayerSeries out(2);
  for (std::int64_t s = 0; s < steps; ++s) {
    out.add(0, static_cast<double>(s));
    out.add(1, 0.5);
    out.add(1, 1.5);  // in two halves
    out.end_step();
  }
  return out;
}

}  // namespace

TEST_CASE("layer series: a column per step while they fit") {
  const LayerSeries series = series_of(127);
  REQUIRE(series.columns() == 127);
  for (int c = 0; c < 127; ++c) {
    CHECK(series.first_step(c) == c);
    CHECK(series.steps(c) == 1);
    CHECK(series.mean(c, 0) == c);
    CHECK(series.mean(c, 1) == 2);
  }
}

TEST_CASE("layer series: neighbours are merged when the columns are full, and the last may be short") {
  for (const auto& [total, per_column] : {std::pair{128, 2}, {129, 2}, {255, 2}, {256, 4}, {1001, 8}, {100000, 1024}}) {
    const int steps = total;
    CAPTURE(steps);
    const LayerSeries series = series_of(steps);
    REQUIRE(series.columns() == (steps + per_column - 1) / per_column);
    CHECK(series.columns() <= LayerSeries::kMostColumns);
    std::int64_t counted = 0;
    for (int c = 0; c < series.columns(); ++c) {
      CHECK(series.first_step(c) == counted);
      const double last = static_cast<double>(counted + series.steps(c) - 1);
      CHECK(series.mean(c, 0) == (static_cast<double>(counted) + last) / 2);  // mean of consecutive numbers
      CHECK(series.mean(c, 1) == 2);
      counted += series.steps(c);
    }
    CHECK(counted == steps);
  }
}

TEST_CASE("layer series: no step, no column") { CHECK(LayerSeries(3).columns() == 0); }

}  // namespace epsim
