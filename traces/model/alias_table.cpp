#include "traces/model/alias_table.h"

#include <algorithm>

#include "sim/core/check.h"
#include "traces/model/quick_sum.h"

namespace epsim {

void AliasTable::build(std::span<const float> weights) {
  total_ = quick_sum(weights);
  const std::size_t size = weights.size();
  EPSIM_CHECK(total_ > 0 && size <= 65536, "an alias table needs positive weights");
  const auto scale = static_cast<float>(static_cast<double>(size) / static_cast<double>(total_));
  for (std::vector<std::uint16_t>* stack : {&low_, &high_}) {
    stack->resize(size);
  }
  cells_.resize(size);
  height_.resize(size);
  // Two stacks, without branches: which cell is low is a coin toss.
  std::size_t lows = 0, highs = 0;
  for (std::size_t i = 0; i < size; ++i) {
    height_[i] = weights[i] * scale;
    low_[lows] = high_[highs] = static_cast<std::uint16_t>(i);
    const std::size_t is_low = height_[i] < 1.0F ? 1 : 0;
    lows += is_low;
    highs += 1 - is_low;
  }
  // A low cell is filled up by a high one, which may become low itself.
  // The high cell at hand stays in a register; low cells that were high are next in turn.
  for (float height = highs > 0 ? height_[high_[highs - 1]] : 0; lows > 0 && highs > 0;) {
    const std::uint16_t low = low_[lows - 1], high = high_[highs - 1];
    const float below = height_[low];
    cells_[low] = {static_cast<std::uint32_t>(static_cast<double>(below) * 4294967296.0), high};
    height -= 1.0F - below;
    height_[high] = height;
    low_[lows - 1] = high;  // counts only if it became low
    if (height < 1.0F) {
      height = --highs > 0 ? height_[high_[highs - 1]] : 0;
    } else {
      --lows;
    }
  }
  low_.resize(lows);
  high_.resize(highs);
  // What is left over is full, but for rounding. A cell without weight among it is sent to the heaviest one.
  const auto heaviest = static_cast<std::uint16_t>(std::max_element(weights.begin(), weights.end()) - weights.begin());
  for (const std::vector<std::uint16_t>* rest : {&low_, &high_}) {
    for (const std::uint16_t i : *rest) {
      cells_[i] = {0U, weights[i] > 0 ? i : heaviest};
    }
  }
}

}  // namespace epsim
