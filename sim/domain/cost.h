// A price and where it came from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

enum class Origin {
  kMeasured,      // a measured point
  kInterpolated,  // between measured points, or a fitted curve inside its measured range
  kExtrapolated,  // beyond the measured range, or carried over from other hardware
  kSpecSheet,     // a data-sheet rate, taken as reached
  kDeclared       // a constant that the scenario or an engine profile states
};
inline constexpr int kOrigins = 5;
inline constexpr std::array<std::string_view, kOrigins> kOriginNames = {"measured", "interpolated", "extrapolated",
                                                                        "spec_sheet", "declared"};
// The less certain of two: what a price made from both is called. Certainty falls in the order of the enum, but for a
// declared constant, which taints nothing.
constexpr Origin weaker(Origin a, Origin b) {
  if (a == Origin::kDeclared || b == Origin::kDeclared) {
    return a == Origin::kDeclared ? b : a;
  }
  return a > b ? a : b;
}

struct Price {
  Seconds time{};
  Origin origin = Origin::kDeclared;
};

// One after the other. What takes no time has no say in where the sum came from.
constexpr Price operator+(const Price& a, const Price& b) {
  if (b.time.count() <= 0) {
    return a;
  }
  return a.time.count() <= 0 ? b : Price{a.time + b.time, weaker(a.origin, b.origin)};
}

inline constexpr std::array<Origin, kOrigins> kOriginsThemselves = {
    Origin::kMeasured, Origin::kInterpolated, Origin::kExtrapolated, Origin::kSpecSheet, Origin::kDeclared};

// Prices of many like things, [thing]: times beside each other, for loops that look at times alone. Where they come
// from is looked up when it is asked, mostly of the longest alone.
struct PriceRow {
  std::vector<double> seconds;
  std::vector<std::int32_t> places;                     // in origin_at
  const Origin* origin_at = kOriginsThemselves.data();  // outlives the row's use

  void resize(std::size_t n) {
    seconds.resize(n);
    places.resize(n);
  }
  std::size_t size() const { return seconds.size(); }
  Price operator[](std::size_t i) const {
    return {Seconds(seconds[i]), origin_at[static_cast<std::size_t>(places[i])]};
  }
  // For rows that no table fills.
  void set(std::size_t i, const Price& price) {
    seconds[i] = price.time.count();
    places[i] = static_cast<std::int32_t>(price.origin);
  }
};

}  // namespace epsim
