// Draws from a fixed distribution in constant time (Walker 1977, built as in Vose 1991).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace epsim {

class AliasTable {
 public:
  // Chances in proportion to `weights`, which are not negative and not all zero; at most 65536 of them.
  void build(std::span<const float> weights);
  float total() const { return total_; }  // of the weights
  // `bits`: 64 random bits.
  std::uint16_t draw(std::uint64_t bits) const {
    const auto at = static_cast<std::uint32_t>(((bits >> 32) * cells_.size()) >> 32);
    const Cell& cell = cells_[at];
    return static_cast<std::uint32_t>(bits) < cell.threshold ? static_cast<std::uint16_t>(at) : cell.other;
  }
  // The same from 32 bits, for a few hundred weights: what the choice of a cell leaves of them decides within it.
  std::uint16_t draw_small(std::uint32_t bits) const {
    const std::uint64_t scaled = static_cast<std::uint64_t>(bits) * cells_.size();
    const Cell& cell = cells_[scaled >> 32];
    return static_cast<std::uint32_t>(scaled) < cell.threshold ? static_cast<std::uint16_t>(scaled >> 32) : cell.other;
  }

 private:
  struct Cell {
    std::uint32_t threshold;
    std::uint16_t other;
  };
  std::vector<Cell> cells_;
  float total_ = 0;
  std::vector<float> height_;  // scratch of build()
  std::vector<std::uint16_t> low_, high_;
};

}  // namespace epsim
