#include "models/step/expert_capacity.h"

#include <algorithm>
#include <cmath>

namespace epsim {

std::int64_t ExpertCapacity::rows(std::int64_t tokens, int top_k, int experts) const {
  const double share = static_cast<double>(tokens) * top_k / experts * factor;
  return std::max(static_cast<std::int64_t>(least), static_cast<std::int64_t>(std::ceil(share)));
}

void pad_to_capacity(const ExpertCapacity& capacity, int top_k, const StepLoads& loads,
                     std::span<const std::int64_t> tokens, PaddedLoads& out) {
  const auto rows =
      static_cast<double>(capacity.rows(*std::max_element(tokens.begin(), tokens.end()), top_k, loads.experts));
  out.loads.resize(loads.layers, static_cast<int>(tokens.size()), loads.experts);
  out.loads.counted = true;
  out.executed_per_layer = 0;
  out.dropped = 0;
  for (int r = 0; r < out.loads.sources; ++r) {
    const auto brought = static_cast<double>(tokens[static_cast<std::size_t>(r)]);
    const double sent = std::min(rows, brought);
    out.executed_per_layer += sent * loads.experts;
    const float per_token = brought > 0 ? static_cast<float>(sent / brought) : 0.0F;
    for (int l = 0; l < loads.layers; ++l) {
      for (const float chosen : loads.row(l, loads.sources == 1 ? 0 : r)) {
        out.dropped += std::max(0.0, static_cast<double>(chosen) * brought - sent);
      }
      std::ranges::fill(out.loads.row(l, r), per_token);
    }
  }
}

}  // namespace epsim
