#include "policies/prefetch/fastermoe.h"

#include <algorithm>
#include <numeric>

namespace epsim {

std::vector<int> fastermoe_shadows(std::span<const std::int64_t> tokens, const FasterMoeOptions& options) {
  std::vector<int> order(tokens.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = [&](int e) { return static_cast<double>(tokens[static_cast<std::size_t>(e)]); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return count(a) > count(b); });

  const double weights = options.alpha * options.hidden * options.hidden;  // one of the two matrices
  const Seconds compute = Flops(4 * weights) / options.compute;            // one token
  const Seconds send_token = Bytes(options.hidden * options.element_bytes) / options.network;
  const Seconds send_expert = Bytes(2 * weights * options.element_bytes) / options.network;
  const auto step = [&](double busiest) { return (3 * compute + 4 * send_token) * busiest; };

  std::vector<int> shadowed;
  Seconds best = order.empty() ? Seconds{} : step(count(order.front()));
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const Seconds with_shadow = step(count(order[i + 1])) + send_expert * static_cast<double>(i + 1);
    if (with_shadow >= best) {
      break;
    }
    best = with_shadow;
    shadowed.push_back(order[i]);
  }
  return shadowed;
}

}  // namespace epsim
