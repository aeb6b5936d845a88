// Sums of many floats.
#pragma once

#include <cstddef>
#include <span>

namespace epsim {

// In four interleaved parts, which need not wait for each other; the order is fixed, so the result is too.
inline float quick_sum(std::span<const float> values) {
  float part[4] = {0, 0, 0, 0};
  const std::size_t whole = values.size() / 4 * 4;
  for (std::size_t i = 0; i < whole; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) {
      part[j] += values[i + j];
    }
  }
  for (std::size_t i = whole; i < values.size(); ++i) {
    part[0] += values[i];
  }
  return (part[0] + part[1]) + (part[2] + part[3]);
}

}  // namespace epsim
