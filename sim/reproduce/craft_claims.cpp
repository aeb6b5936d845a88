#include "sim/reproduce/craft_claims.h"

#include <algorithm>

namespace epsim {
namespace {

// High skew, low skew, and the setup whose KV pool is smallest.
constexpr std::string_view kQuickSetups[] = {"de8", "dl8", "ke6"};
constexpr std::span<const std::string_view> kQuick = kQuickSetups;

std::vector<CraftClaim> merged() {
  std::vector<CraftClaim> all;
  for (const auto claims : {craft_plan_claims(), craft_goodput_claims(), craft_factor_claims(), craft_latency_claims(),
                            craft_bound_claims()}) {
    all.insert(all.end(), claims.begin(), claims.end());
  }
  std::sort(all.begin(), all.end(), [](const CraftClaim& a, const CraftClaim& b) { return a.id < b.id; });
  return all;
}

}  // namespace

std::vector<std::string_view> CraftScope::of(std::span<const std::string_view> setups) const {
  std::vector<std::string_view> out;
  std::copy_if(setups.begin(), setups.end(), std::back_inserter(out), [&](std::string_view setup) {
    const std::span<const std::string_view> run = !only.empty() ? only : quick ? kQuick : setups;
    return std::find(run.begin(), run.end(), setup) != run.end();
  });
  return out;
}

std::span<const CraftClaim> craft_claims() {
  static const std::vector<CraftClaim> all = merged();
  return all;
}

}  // namespace epsim
