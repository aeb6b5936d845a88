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

std::string spread_by(Router router) {
  return router == Router::kRoundRobin
             ? "# Spread requests over all instances, one after the other, as the runs did.\n"
             : fmt::format("# Spread requests over all instances by a router of your own: the runs had {}.\n",
                           name_of(router));
}

std::string not_the_router(Router router, Router other) {
  return router == other
             ? ""
             : fmt::format("# The runs' router was {}; the one below is {}.\n", name_of(router), name_of(other));
}

std::string role_name(const CapacityDesign& design) {
  return std::string(kInstanceRoleNames[static_cast<std::size_t>(design.role)]);
}

Transport LaunchedPool::transport_of(bool decodes) const {
  const DispatchOptions& dispatch = planned.pool.dispatch;
  return (decodes && dispatch.decode_steps != nullptr ? *dispatch.decode_steps : dispatch).network.transport;
}

bool LaunchedPool::deep_ep() const {
  const Transport transport = transport_of(false);
  return transport == Transport::kDeepEpNormal || transport == Transport::kDeepEpLowLatency;
}

std::string GivenKnobs::take(std::string_view knob) {
  const auto found = std::ranges::find(given_, knob, [](const auto& given) { return std::string_view(given.first); });
  if (found == given_.end()) {
    return "";
  }
  std::string value = found->second;
  given_.erase(found);
  return value.starts_with('[') ? replaced(value.substr(1, value.size() - 2), ",", "") : value;
}

std::string GivenKnobs::flags(std::initializer_list<std::string_view> known, std::string_view off) {
  std::string out;
  for (const std::string_view knob : known) {
    const std::string value = take(knob), name = replaced(std::string(knob), "_", "-");
    if (value == "true") {
      out += " --" + name;
    } else if (value == "false") {
      out += off.empty() ? "" : fmt::format(" --{}{}", off, name);
    } else if (!value.empty()) {
      out += fmt::format(" --{} {}", name, value);
    }
  }
  return out;
}

}  // namespace epsim
