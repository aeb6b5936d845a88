#include "sim/reproduce/craft_setups.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/core/check.h"
#include "sim/core/config.h"
#include "sim/scenario/read_scenario.h"

namespace epsim {

namespace embedded {
std::span<const std::pair<std::string_view, std::string_view>> craft_experiments();
}  // namespace embedded

namespace {

constexpr CraftSetup kSetups[] = {{"de8"}, {"dj8"}, {"dl8"}, {"da8"}, {"ke8"},  {"kj8"},  {"kl8"},
                                  {"ka8"}, {"ke6"}, {"kj6"}, {"kl6"}, {"ke12"}, {"kj12"}, {"kl12"}};

Config shipped_document(std::string_view name) {
  const std::string file = fmt::format("experiments/craft/{}.yaml", name);
  for (const auto& [path, text] : embedded::craft_experiments()) {
    if (path == file) {
      return Config::from_text(std::string(text), file);
    }
  }
  EPSIM_CHECK(false, "every setup has a scenario");
}

// The fractions that give 19, 75 and 24 % of KV cache lost to EPLB's copies on D*8, K*6 and K*12.
double fraction_of(const CraftSetup& setup) { return setup.nodes() == 6 ? 0.637 : setup.nodes() == 12 ? 0.565 : 0.628; }

}  // namespace

std::span<const CraftSetup> craft_setups() { return kSetups; }

const CraftSetup& craft_setup(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kSetups), std::end(kSetups), [&](const CraftSetup& s) { return s.name == name; });
  EPSIM_CHECK(found != std::end(kSetups), "claims name setups that exist");
  return *found;
}

Scenario craft_scenario(const CraftSetup& setup, CraftMemory memory, const std::vector<std::string>& overrides,
                        const std::vector<std::string>& policies) {
  Config config = shipped_document(setup.name);
  config.extend(shipped_document("common"));
  if (memory == CraftMemory::kPaper) {
    config.set(fmt::format("memory.static_fraction={}", fraction_of(setup)));
    config.set("memory.reserve_per_node=0B");
  }
  for (const std::string& assignment : overrides) {
    config.set(assignment);
  }
  return read_scenario(config, policies);
}

}  // namespace epsim
