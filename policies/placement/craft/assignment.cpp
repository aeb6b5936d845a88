#include "policies/placement/craft/assignment.h"

#include <algorithm>

namespace epsim {
namespace {

// The GPUs that get this layer's `extra` slots: those with fewer experts than the extra-th smallest number, and as many
// of those that have just that number as are still needed.
std::vector<int> gpus_for_extra(const std::vector<int>& held, int extra, Interleave how) {
  std::vector<int> sorted = held;
  std::nth_element(sorted.begin(), sorted.begin() + (extra - 1), sorted.end());
  const int cutoff = sorted[static_cast<std::size_t>(extra - 1)];
  std::vector<int> chosen, tied;
  for (std::size_t g = 0; g < held.size(); ++g) {
    if (held[g] < cutoff) {
      chosen.push_back(static_cast<int>(g));
    } else if (held[g] == cutoff) {
      tied.push_back(static_cast<int>(g));
    }
  }
  const int missing = extra - static_cast<int>(chosen.size());
  for (const int i : interleave_select(static_cast<int>(tied.size()), missing, how)) {
    chosen.push_back(tied[static_cast<std::size_t>(i)]);
  }
  return chosen;
}

}  // namespace

std::vector<std::vector<int>> assign_capacities(std::span<const int> layer_experts, int gpus, Interleave how) {
  std::vector<std::vector<int>> out;
  int whole = 0;
  for (const int experts : layer_experts) {
    out.emplace_back(static_cast<std::size_t>(gpus), experts / gpus);
    whole += experts / gpus;
  }
  std::vector<int> held(static_cast<std::size_t>(gpus), whole);
  for (std::size_t l = 0; l < out.size(); ++l) {
    const int extra = layer_experts[l] % gpus;
    if (extra == 0) {
      continue;
    }
    for (const int g : gpus_for_extra(held, extra, how)) {
      ++out[l][static_cast<std::size_t>(g)];
      ++held[static_cast<std::size_t>(g)];
    }
  }
  return out;
}

}  // namespace epsim
