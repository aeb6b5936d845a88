#include "policies/policy_entry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/core/mapped.h"

namespace epsim {
namespace {

std::string option_text(const Key& key) {
  const bool worked_out = key.fallback.kind == key::Fallback::Kind::kWorkedOut;
  const std::string fallback = worked_out ? std::string(key.fallback.words) : default_text(key);
  const std::string choices =
      key.value.choices == nullptr ? "" : fmt::format("{}", fmt::join(key.value.choices(), "|"));
  const std::string both = choices + (choices.empty() || fallback.empty() ? "" : "; ") + fallback;
  return both.empty() ? std::string(key.name) : fmt::format("{} ({})", key.name, both);
}

}  // namespace

std::string options_text(std::span<const Key> keys) {
  const std::vector<std::string> out = mapped(keys, [&](const Key& key) { return option_text(key); });
  return out.empty() ? "none" : fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace epsim
