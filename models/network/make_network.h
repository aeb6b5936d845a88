// The network model that a scenario asks for.
#pragma once

#include <memory>

#include "models/network/network.h"

namespace epsim {

// TwoTierNetwork where nothing but ports and NICs can be busy; FabricNetwork for max_min and for every other fabric.
// Throws InputError when a profile has no curve for the transport.
std::unique_ptr<Network> make_network(const ClusterSpec& cluster, NetworkProfile profile,
                                      const NetworkOptions& options = {});

}  // namespace epsim
