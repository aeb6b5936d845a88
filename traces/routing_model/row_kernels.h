// The inner loops of drawing a step's loads: eight experts side by side, or four of each of two layers, with the same
// result, bit by bit, whatever the processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace epsim {

inline constexpr std::size_t kWide = 16;

// One layer's tables. Experts are padded with shares of practically 0 up to a multiple of kWide.
struct RowTables {
  const float* log_share;  // [expert]
  const float* slope;      // [expert] mean correction per variance of the topic's coordinates
  const float* loadings;   // [expert / kWide][factor][kWide]
  std::size_t experts;
};

// out[e] = sqrt(e^(log_share + slope * variance + loadings . z)); returns the sum of the squares.
float row_roots(const RowTables& tables, std::span<const float> z, float variance, float* out);

// A row of square roots of chances that becomes a draw, and what came out.
struct NoisyRow {
  float* values;  // [experts]
  float scale, noise;
  std::uint64_t key;
  float total = 0, highest = 0;
};
// Turns roots r into r^2 scale, capped at 1, plus a draw of deviation noise * r * sqrt(1 - r^2 scale) (about, see the
// code) times ByteGaussian::kDeviation, at least a thousandth of the chance. Rows have a multiple of four values, the
// same number each; what is drawn for one does not depend on the others.
void add_row_noise(std::span<NoisyRow> rows, std::size_t experts);

}  // namespace epsim
