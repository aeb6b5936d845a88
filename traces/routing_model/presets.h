// Routing models that the program carries: traces/presets/*.yaml, each of which says what in it is measured and what is
// assumed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/routing_model/routing_model.h"

namespace epsim {

struct PresetEntry {
  std::string_view name;  // of the file, without its ending
  std::string_view yaml;
};

// In the order of their names.
std::vector<PresetEntry> routing_presets();
// Throws InputError listing the presets, the nearest first, when there is none of that name.
RoutingModel routing_preset(const std::string& name);

}  // namespace epsim
