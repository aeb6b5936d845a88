#include "traces/model/alias_table.h"

#include <algorithm>

#include "sim/core/check.h"
#include "traces/model/quick_sum.h"

namespace epsim {

void AliasTable::build(std::span<const float> weights) {
  const auto sum = static_cast<double>(quick_sum(weights));
  EPSIM_CHECK(sum > 0 && weights.size() <= 65536, "an alias table needs positive weights");
  const auto scale = static_cast<float>(static_cast<double>(weights.size()) / sum);
  cells_.resize(weights.size());
  height_.resize(weights.size());
  low_.clear();
  high_.clear();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    height_[i] = weights[i] * scale;
    (height_[i] < 1.0F ? low_ : high_).push_back(static_cast<std::uint16_t>(i));
  }
  // A low cell is filled up by a high one, which may become low itself.
  while (!low_.empty() && !high_.empty()) {
    const std::uint16_t low = low_.back(), high = high_.back();
    low_.pop_back();
    cells_[low] = {static_cast<std::uint32_t>(static_cast<double>(height_[low]) * 4294967296.0), high};
    height_[high] -= 1.0F - height_[low];
    if (height_[high] < 1.0F) {
      high_.pop_back();
      low_.push_back(high);
    }
  }
  // What is left over is full, but for rounding. A cell without weight among it is sent to the heaviest one.
  const auto heaviest = static_cast<std::uint16_t>(std::max_element(weights.begin(), weights.end()) - weights.begin());
  for (const std::vector<std::uint16_t>* rest : {&low_, &high_}) {
    for (const std::uint16_t i : *rest) {
      cells_[i] = {0U, weights[i] > 0 ? i : heaviest};
    }
  }
}

}  // namespace epsim
