#include "sim/study/known_failures.h"

#include <fmt/format.h>

#include <utility>

namespace epsim {
namespace {

std::string key_of(const std::vector<CapacityPool>& pools) {
  std::string out;
  for (const CapacityPool& pool : pools) {
    out += fmt::format("{} x {}; ", pool.instances, name_of(pool.design));
  }
  return out;
}

}  // namespace

void KnownFailures::add(const std::vector<CapacityPool>& pools, CapacityAnswer answer) {
  answers_.insert_or_assign(key_of(pools), std::move(answer));
}

const CapacityAnswer* KnownFailures::find(const std::vector<CapacityPool>& pools) const {
  const auto known = answers_.find(key_of(pools));
  return known == answers_.end() ? nullptr : &known->second;
}

}  // namespace epsim
