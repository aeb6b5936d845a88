// Pictures of a topology, for people: Graphviz text and a layered SVG. Only the first nodes are drawn when there are
// many, and the picture says so.
#pragma once

#include <string>

#include "models/network/topology.h"

namespace epsim {

inline constexpr int kDrawnNodes = 4;

// A `digraph` with one box per node; two directions of one rate are one edge with two heads, labelled with the rate.
std::string to_dot(const Topology& topology, int max_nodes = kDrawnNodes);

// A stand-alone SVG document: fabric on top, then NICs, then GPUs with the switch or bridge that joins them. Rates are
// listed below it, and every line has its link's name as a tooltip.
std::string to_svg(const Topology& topology, int max_nodes = kDrawnNodes);

}  // namespace epsim
