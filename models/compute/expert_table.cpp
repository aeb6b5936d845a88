#include "models/compute/expert_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "sim/core/check.h"
#include "sim/core/simd.h"

namespace epsim {
namespace {

constexpr int kRowOctaves = 20, kRowSteps = 8, kGroupOctaves = 10, kGroupSteps = 4;
constexpr int kRowPlaces = kRowOctaves * kRowSteps + 1, kGroupPlaces = kGroupOctaves * kGroupSteps + 1;
constexpr std::int32_t kNothing = 4 * kRowPlaces * kGroupPlaces;  // behind the table: no time taints nothing

// Position in a table of `steps` to the octave without a logarithm: the exponent gives the octave, the mantissa runs
// almost straight in it. The exponent becomes a double by the bits of 2^52 + it.
inline double table_place(double x, int steps, int places) {
  const auto bits = std::bit_cast<std::uint64_t>(x > 1.0 ? x : 1.0);
  const double octave = std::bit_cast<double>(bits >> 52U | 0x4330000000000000U) - (0x1p52 + 1023.0);
  const double mantissa = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFU) | 0x3FF0000000000000U);  // in [1, 2)
  const double place = (octave + mantissa - 1.0) * steps, last = static_cast<double>(places - 1) - 1e-9;
  return place < last ? place : last;
}

// The x at an integer place of table_place().
double value_at(int place, int steps) {
  return std::ldexp(1.0 + static_cast<double>(place % steps) / steps, place / steps);
}

EPSIM_SIMD void look_up(const double* __restrict table, const double* __restrict each_token,
                        const double* __restrict least, double tokens, const double* __restrict rows,
                        const double* __restrict touched, std::size_t n, double* __restrict seconds,
                        std::int32_t* __restrict place) {
  for (std::size_t i = 0; i < n; ++i) {
    const double groups = touched[i] > 1.0 ? touched[i] : 1.0;
    const double row_place = table_place(rows[i] / groups, kRowSteps, kRowPlaces);
    const double group_place = table_place(groups, kGroupSteps, kGroupPlaces);
    const auto r = static_cast<std::int32_t>(row_place), g = static_cast<std::int32_t>(group_place);
    const double along_r = row_place - r, along_g = group_place - g;
    const std::int32_t low = g * kRowPlaces + r, high = low + kRowPlaces;
    const auto value = [&](std::int32_t at) {
      const double sum = table[at] + each_token[at] * tokens;
      return sum > least[at] ? sum : least[at];
    };
    const double few = value(low) + (value(low + 1) - value(low)) * along_r;
    const double many = value(high) + (value(high + 1) - value(high)) * along_r;
    seconds[i] = few + (many - few) * along_g;
    place[i] = 4 * low + (along_r > 0 ? 1 : 0) + (along_g > 0 ? 2 : 0);
  }
  // Apart, or the compiler would make every load above depend on it.
  for (std::size_t i = 0; i < n; ++i) {
    seconds[i] = rows[i] > 0 ? seconds[i] : 0.0;
    place[i] = rows[i] > 0 ? place[i] : kNothing;
  }
}

}  // namespace

ExpertTable::ExpertTable(const std::function<Point(double, double)>& point) {
  std::vector<Origin> origins;
  for (int g = 0; g < kGroupPlaces; ++g) {
    for (int r = 0; r < kRowPlaces; ++r) {
      const Point here = point(value_at(r, kRowSteps), value_at(g, kGroupSteps));
      seconds_.push_back(here.price.time.count());
      each_token_.push_back(here.each_token.count());
      least_.push_back(here.least.count());
      origins.push_back(here.price.origin);
    }
  }
  origin_.resize(4 * origins.size() + 1, Origin::kDeclared);
  for (int g = 0; g + 1 < kGroupPlaces; ++g) {
    for (int r = 0; r + 1 < kRowPlaces; ++r) {
      const auto low = static_cast<std::size_t>(g) * kRowPlaces + static_cast<std::size_t>(r), high = low + kRowPlaces;
      const Origin right = weaker(origins[low], origins[low + 1]);
      const std::array<Origin, 4> weakest{origins[low], right, weaker(origins[low], origins[high]),
                                          weaker(right, weaker(origins[high], origins[high + 1]))};
      for (std::size_t k = 0; k < weakest.size(); ++k) {
        origin_[4 * low + k] = weakest[k];
      }
    }
  }
}

void ExpertTable::at(std::span<const double> rows, std::span<const double> touched, double tokens,
                     PriceRow& out) const {
  EPSIM_CHECK(!empty() && rows.size() == touched.size(), "one price per GPU");
  out.resize(rows.size());
  out.origin_at = origin_.data();
  look_up(seconds_.data(), each_token_.data(), least_.data(), tokens, rows.data(), touched.data(), rows.size(),
          out.seconds.data(), out.places.data());
}

Price ExpertTable::at(double rows, double touched, double tokens) const {
  PriceRow out;
  at({&rows, 1}, {&touched, 1}, tokens, out);
  return out[0];
}

}  // namespace epsim
