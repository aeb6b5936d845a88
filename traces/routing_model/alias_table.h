// Draws from a fixed distribution in constant time (Walker 1977, built as in Vose 1991).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace epsim {

// One cell of a table: its own value below the threshold, the other one above it.
struct AliasCell {
  std::uint32_t threshold;
  std::uint16_t other;

  // Without a branch: which of the two comes is what no processor foresees.
  std::uint32_t pick(std::uint32_t own, std::uint32_t bits) const {
    const std::uint32_t below = bits < threshold ? ~0U : 0U;
    return other ^ ((own ^ other) & below);
  }
};

// Fills tables; keeps the scratch space for it.
class AliasBuilder {
 public:
  // One cell per weight, for chances in proportion to `weights`, which are not negative and not all zero; at most 65536
  // of them. Values are counted from `first` on. Returns the sum of the weights.
  float build(std::span<const float> weights, std::uint16_t first, std::span<AliasCell> cells);

 private:
  std::vector<float> height_;
  std::vector<std::uint16_t> low_, high_;
};

class AliasTable {
 public:
  void build(std::span<const float> weights) {
    cells_.resize(weights.size());
    builder_.build(weights, 0, cells_);
  }
  // `bits`: 64 random bits.
  std::uint16_t draw(std::uint64_t bits) const { return draw(cells_, bits); }
  static std::uint16_t draw(std::span<const AliasCell> cells, std::uint64_t bits) {
    const auto at = static_cast<std::uint32_t>(((bits >> 32) * cells.size()) >> 32);
    return static_cast<std::uint16_t>(cells[at].pick(at, static_cast<std::uint32_t>(bits)));
  }

 private:
  std::vector<AliasCell> cells_;
  AliasBuilder builder_;
};

}  // namespace epsim
