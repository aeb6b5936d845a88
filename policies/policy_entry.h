// What every kind of policy has in its table: one entry each, found by name, listed by `epsim list`.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sim/core/config.h"
#include "sim/core/key.h"
#include "sim/core/named.h"

namespace epsim {

// Stands beside its policy, in the policy's own file.
template <class Policy>
struct PolicyEntry {
  std::string_view name;
  std::string_view summary;   // one sentence and where the policy comes from
  std::string_view ignores;   // what it does not look at, as a list
  std::span<const Key> keys;  // through which the factory reads its options
  std::unique_ptr<Policy> (*make)(ConfigReader& options);
};

// "n_extra (8), relief (own_requests|rebalanced|simulated; rebalanced)"; "none" without keys.
std::string options_text(std::span<const Key> keys);

}  // namespace epsim
