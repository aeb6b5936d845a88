#include "sim/verbs/launch/engine_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "models/catalogue/catalogue.h"
#include "sim/core/check.h"
#include "sim/core/text.h"
#include "sim/scheduler/engines.h"

namespace epsim {

Hosts hosts_of(const CapacityDesign& d) {
  const int of_host = find_node(d.node).spec.gpus_per_host, of_node = d.gpus / d.nodes;
  const int per_node = (of_node + of_host - 1) / of_host;
  return {d.nodes * per_node, std::max(1, of_host / of_node), of_node / per_node};
}

std::string_view engine_version(std::string_view name) {
  for (const EngineAlias& alias : kEngineAliases) {
    name = alias.name == name ? alias.engine : name;
  }
  return name;
}

const EngineLaunch& launch_of(std::string_view name) {
  static constexpr const EngineLaunch* kAll[] = {&kSglangLaunch, &kVllmLaunch, &kTrtllmLaunch};
  const auto found = std::ranges::find_if(kAll, [&](const auto* each) { return name.starts_with(each->engine); });
  EPSIM_CHECK(found != std::end(kAll), "no way to start engine " + std::string(name));
  return **found;
}

std::string role_name(const CapacityDesign& design) {
  return std::string(kInstanceRoleNames[static_cast<std::size_t>(design.role)]);
}

std::optional<std::string> flag_among(std::initializer_list<std::string_view> known, const std::string& knob,
                                      const std::string& value, std::string_view off) {
  const std::string name = replaced(knob, "_", "-");
  if (std::ranges::find(known, knob) == known.end()) {
    return std::nullopt;
  }
  if (value == "false") {
    return off.empty() ? "" : fmt::format(" --{}{}", off, name);
  }
  return value == "true" ? " --" + name : fmt::format(" --{} {}", name, value);
}

}  // namespace epsim
