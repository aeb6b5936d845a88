#include "sim/study/prefix_share.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sim/core/check.h"
#include "sim/scheduler/router.h"

namespace epsim {

std::vector<std::size_t> prefix_share(const RequestTrace& trace, std::size_t instances) {
  EPSIM_CHECK(trace.prefixes.known() && instances > 0, "a trace with prefixes, for some instances");
  std::vector<std::vector<bool>> holds(instances, std::vector<bool>(static_cast<std::size_t>(trace.prefixes.distinct)));
  std::vector<std::vector<std::size_t>> sent(instances);
  std::vector<RouterChoice> choices(instances);
  for (std::size_t r = 0; r < trace.requests.size(); ++r) {
    const std::int64_t input = trace.requests[r].input_tokens;
    const auto blocks = trace.prefixes.of(r);
    for (std::size_t i = 0; i < instances; ++i) {
      const auto unknown =
          std::ranges::find_if(blocks, [&](std::int32_t block) { return !holds[i][static_cast<std::size_t>(block)]; });
      choices[i].load.running = std::ssize(sent[i]);
      choices[i].cached_tokens = std::min(input, (unknown - blocks.begin()) * trace.prefixes.block_tokens);
    }
    const std::size_t chosen = pick_choice(Router::kCacheAware, choices, input);
    sent[chosen].push_back(r);
    for (const std::int32_t block : blocks) {
      holds[chosen][static_cast<std::size_t>(block)] = true;
    }
  }
  const double even = static_cast<double>(trace.requests.size()) / static_cast<double>(instances);
  const auto off = [even](const auto& of) { return std::abs(static_cast<double>(of.size()) - even); };
  return *std::ranges::min_element(sent, {}, off);
}

}  // namespace epsim
