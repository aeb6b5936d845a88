// A network as a Graphviz graph. Only the first nodes are drawn when there are many, and the picture says so.
#pragma once

#include <string>

#include "models/network/topology.h"

namespace epsim {

inline constexpr int kDrawnNodes = 2;  // of eight GPUs: as many as a window of 1280 pixels shows at full size

// A `digraph` with one box per node; two directions of one rate are one edge with two heads, labelled with the rate.
std::string to_dot(const TopologyPlan& network, int max_nodes = kDrawnNodes);

}  // namespace epsim
