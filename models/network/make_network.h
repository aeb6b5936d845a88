// The network model that a scenario asks for.
#pragma once

#include <memory>

#include "models/network/network.h"

namespace epsim {

// TwoTierNetwork where nothing but ports and NICs can be busy; FabricNetwork for max_min and for every other fabric.
// Throws InputError when a profile has no curve for the transport.
std::unique_ptr<Network> make_network(const ClusterSpec& cluster, NetworkProfile profile,
                                      const NetworkOptions& options = {});

// Processor time of one exchange by max_min in which all GPUs send, to hot receivers: 6 ms on 64 GPUs, 0.4 s on 256 and 4 s
// on 512, measured on one core.
Seconds max_min_time(int gpus);

}  // namespace epsim
