#include "traces/routing_model/alias_table.h"

#include <algorithm>

#include "sim/core/check.h"
#include "traces/routing_model/quick_sum.h"

namespace epsim {

float AliasBuilder::build(std::span<const float> weights, std::uint16_t first, std::span<AliasCell> cells) {
  const float total = quick_sum(weights);
  const std::size_t size = weights.size();
  EPSIM_CHECK(total > 0 && size + first <= 65536 && cells.size() == size, "an alias table needs positive weights");
  const auto scale = static_cast<float>(static_cast<double>(size) / static_cast<double>(total));
  for (std::vector<std::uint16_t>* stack : {&low_, &high_}) {
    stack->resize(size);
  }
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
    cells[low] = {static_cast<std::uint32_t>(static_cast<double>(below) * 4294967296.0),
                  static_cast<std::uint16_t>(first + high)};
    height -= 1.0F - below;
    height_[high] = height;
    low_[lows - 1] = high;  // counts only if it became low
    const std::size_t became_low = height < 1.0F ? 1 : 0;
    highs -= became_low;
    lows -= 1 - became_low;
    const float next = height_[high_[highs - (highs > 0 ? 1 : 0)]];
    height = became_low != 0 ? next : height;
  }
  low_.resize(lows);
  high_.resize(highs);
  // What is left over is full, but for rounding. A cell without weight among it is sent to the heaviest one.
  const auto heaviest = static_cast<std::uint16_t>(std::max_element(weights.begin(), weights.end()) - weights.begin());
  for (const std::vector<std::uint16_t>* rest : {&low_, &high_}) {
    for (const std::uint16_t i : *rest) {
      cells[i] = {0U, static_cast<std::uint16_t>(first + (weights[i] > 0 ? i : heaviest))};
    }
  }
  return total;
}

}  // namespace epsim
