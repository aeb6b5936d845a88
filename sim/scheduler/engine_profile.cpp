#include "sim/scheduler/engine_profile.h"

#include <fmt/format.h>

#include <algorithm>

namespace epsim {

std::int64_t Budgets::per_rank(const ConfigReader& in, const std::string& key, std::int64_t value) const {
  const std::int64_t share = divided ? value / dp_ranks : value;
  in.check(value <= 0 || share > 0, key, fmt::format("divided by {} DP ranks, nothing is left of it.", dp_ranks));
  return share;
}

std::vector<std::int64_t> captured_sizes(ConfigReader& in, const Key& key,
                                         const EngineDefault<std::vector<std::int64_t>>& fallback) {
  std::vector<std::int64_t> sizes = or_engine(in, key, fallback);
  std::sort(sizes.begin(), sizes.end());
  in.check(!sizes.empty(), std::string(key.name), "at least one size is captured.");
  return sizes;
}

EngineDefault<bool> no_graphs(const EngineSite& site) {
  return {!site.can_capture, site.can_capture ? "the engine captures decode steps"
                                              : "this transport's messages vary in size and cannot be captured"};
}

}  // namespace epsim
