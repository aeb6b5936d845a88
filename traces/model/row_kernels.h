// The inner loops of drawing one layer's loads: eight experts side by side where the processor can, with the same
// result, bit by bit, where it cannot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace epsim {

inline constexpr std::size_t kWide = 8;

// One layer's tables. Experts are padded with shares of practically 0 up to a multiple of kWide.
struct RowTables {
  const float* log_share;  // [expert]
  const float* slope;      // [expert] mean correction per variance of the topic's coordinates
  const float* loadings;   // [expert / kWide][factor][kWide]
  std::size_t experts;
};

// out[e] = sqrt(e^(log_share + slope * variance + loadings . z)); returns the sum of the squares.
float row_roots(const RowTables& tables, std::span<const float> z, float variance, float* out);

struct RowSum {
  float total = 0, highest = 0;
};
// Turns roots r into r^2 scale, capped at 1, plus a draw of deviation noise * r * sqrt(1 - r^2 scale) (about, see the
// code) times ByteGaussian::kDeviation, at least a thousandth of the chance. The row has a multiple of kWide values.
RowSum add_row_noise(float scale, float noise, std::uint64_t key, std::span<float> row);

// The same without the processor's wider instructions: what tests hold the others against.
float row_roots_plain(const RowTables& tables, std::span<const float> z, float variance, float* out);
RowSum add_row_noise_plain(float scale, float noise, std::uint64_t key, std::span<float> row);

}  // namespace epsim
