// Whole counts from fractional ones, without changing their sum.
#pragma once

#include <cstdint>
#include <span>

namespace epsim {

// out[i] = row[i] * scale rounded to a neighbouring whole number, so that all of `out` sum to `total`, the sum of the
// scaled row up to float precision. Rounding is carried from one value to the next of its lane (8 lanes side by side),
// which keeps it unbiased over rows; what the lanes' ends leave over goes to values near `start`. No count exceeds
// `most`. `row` may be longer than `out` by a padding of zeros, up to a multiple of 4.
void round_counts(std::span<const float> row, float scale, std::int64_t total, float most, std::size_t start,
                  std::span<float> out);

}  // namespace epsim
