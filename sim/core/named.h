// Finding an entry of a table by its name.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/choice.h"
#include "sim/core/error.h"

namespace epsim {

// Null when there is none.
template <class Entries>
auto find_named(const Entries& entries, std::string_view name) {
  const auto found = std::ranges::find_if(entries, [&](const auto& entry) { return entry.name == name; });
  return found == std::ranges::end(entries) ? nullptr : &*found;
}

// Throws InputError at `place` when there is none. The message lists all, the nearest first, and says what is listed in
// the word `kind`; `also` are names that stand in other tables.
template <class Entries>
const auto& require_named(const Entries& entries, const std::string& kind, const std::string& name,
                          const InputPlace& place, const std::vector<std::string>& also = {}) {
  if (const auto* entry = find_named(entries, name)) {
    return *entry;
  }
  std::vector<std::string> names = entry_names(entries);
  names.insert(names.end(), also.begin(), also.end());
  throw InputError(place, unknown_name(kind, name, names));
}

}  // namespace epsim
