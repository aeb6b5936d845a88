#include "traces/routing_model/presets.h"

#include <algorithm>
#include <span>
#include <utility>

#include "sim/core/last_made.h"
#include "sim/core/named.h"

namespace epsim {

namespace embedded {
std::span<const std::pair<std::string_view, std::string_view>> traces_presets();
}  // namespace embedded

std::vector<PresetEntry> routing_presets() {
  std::vector<PresetEntry> presets;
  for (const auto& [path, content] : embedded::traces_presets()) {
    const std::size_t slash = path.rfind('/') + 1;
    presets.push_back({path.substr(slash, path.rfind('.') - slash), content});
  }
  std::sort(presets.begin(), presets.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return presets;
}

RoutingModel routing_preset(const std::string& name) {
  const std::vector<PresetEntry> presets = routing_presets();
  const PresetEntry& preset = require_named(presets, "routing preset", name, {"", 0, "preset"});
  static LastMade<std::string, RoutingModel> models(16);  // a study reads as many scenarios as it has points
  return *models.get("preset " + name, [&](const std::string& source) {
    return read_routing_model(Config::from_own_text(preset.yaml, source).root(), source);
  });
}

}  // namespace epsim
