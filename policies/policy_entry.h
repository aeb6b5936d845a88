// What every kind of policy has in its table: one entry each, found by name, listed by `epsim list`.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/config.h"
#include "sim/core/key.h"

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

// Null when no entry has that name.
template <class Entry>
const Entry* find_named(std::span<const Entry> entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

// The entry `name`; throws InputError at `options` when there is none. The message lists all, the nearest first, and
// says what is listed in the word `kind`; `also` are names that stand in other tables.
template <class Entry>
const Entry& require_named(std::span<const Entry> entries, const std::string& kind, const std::string& name,
                           const ConfigReader& options, const std::vector<std::string>& also = {}) {
  if (const Entry* entry = find_named(entries, name)) {
    return *entry;
  }
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    names.emplace_back(entry.name);
  }
  names.insert(names.end(), also.begin(), also.end());
  throw InputError(options.place(""), unknown_name(kind, name, names));
}

}  // namespace epsim
