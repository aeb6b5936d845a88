#include "models/network/topology_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/core/check.h"
#include "sim/core/mapped.h"
#include "sim/core/text.h"

namespace epsim {
namespace {

struct Edge {
  int from, to;
  BytesPerSecond rate;
  bool both;  // the way back has the same rate
};

// What of a network is drawn.
struct View {
  std::vector<int> vertices;  // by id
  std::vector<Edge> edges;    // between them, in order of the links
  int nodes = 0, drawn_nodes = 0, switches = 0, drawn_switches = 0;

  std::string note() const {
    if (drawn_nodes == nodes) {
      return fmt::format("{} {}.", nodes, nodes == 1 ? "node" : "nodes");
    }
    return fmt::format("{} of {} nodes and {} of {} switches between them are drawn; the others are alike.",
                       drawn_nodes, nodes, drawn_switches, switches);
  }
};

std::string rate_text(BytesPerSecond rate) {
  return rate == kUnlimited ? "no own limit" : fmt::format("{:.4g} GB/s", rate.count() / 1e9);
}

bool in_fabric(const TopologyVertex& v) { return v.node < 0; }

// Vertices of the first nodes, the leaves that these hang on, and the spines above those.
std::vector<bool> shown_vertices(const TopologyPlan& network, int max_nodes) {
  const std::vector<TopologyVertex>& vertices = network.vertices;
  std::vector<bool> shown =
      mapped(vertices, [&](const TopologyVertex& v) { return !in_fabric(v) && v.node < max_nodes; });
  for (const VertexKind tier : {VertexKind::kLeaf, VertexKind::kSpine}) {
    for (const TopologyLink& link : network.links) {
      const std::size_t from = link.from, to = link.to;
      shown[to] = shown[to] || (shown[from] && vertices[to].kind == tier);
    }
  }
  return shown;
}

std::vector<Edge> edges_between(const TopologyPlan& network, const std::vector<bool>& shown) {
  std::map<std::pair<int, int>, BytesPerSecond> rate;
  std::set<std::pair<int, int>> drawn;
  for (const TopologyLink& link : network.links) {
    rate[{link.from, link.to}] = link.rate;
  }
  std::vector<Edge> edges;
  for (const TopologyLink& link : network.links) {
    const auto back = rate.find({link.to, link.from});
    const bool both = back != rate.end() && back->second == link.rate;
    const bool seen = both && drawn.contains({link.to, link.from});
    if (shown[link.from] && shown[link.to] && !seen) {
      edges.push_back({link.from, link.to, link.rate, both});
      drawn.insert({link.from, link.to});
    }
  }
  return edges;
}

View view_of(const TopologyPlan& network, int max_nodes) {
  EPSIM_CHECK(max_nodes >= 1, "a drawing shows at least one node");
  const std::vector<bool> shown = shown_vertices(network, max_nodes);
  View view;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const TopologyVertex& v = network.vertices[i];
    view.nodes = std::max(view.nodes, v.node + 1);
    view.switches += in_fabric(v) ? 1 : 0;
    view.drawn_switches += in_fabric(v) && shown[i] ? 1 : 0;
    if (shown[i]) {
      view.vertices.push_back(static_cast<int>(i));
    }
  }
  view.drawn_nodes = std::min(view.nodes, max_nodes);
  view.edges = edges_between(network, shown);
  return view;
}

}  // namespace

std::string to_dot(const TopologyPlan& network, int max_nodes) {
  const View view = view_of(network, max_nodes);
  std::string out = fmt::format("digraph topology {{\n  graph [label={}, labelloc=b];\n  node [shape=box];\n",
                                in_quotes(view.note()));
  for (int node = 0; node < view.drawn_nodes; ++node) {
    out += fmt::format("  subgraph cluster_node{} {{\n    label=\"node {}\";\n", node, node);
    for (const int v : view.vertices) {
      const TopologyVertex& vertex = network.vertices[v];
      out += vertex.node == node ? fmt::format("    {};\n", in_quotes(vertex.name)) : "";
    }
    out += "  }\n";
  }
  for (const Edge& e : view.edges) {
    out +=
        fmt::format("  {} -> {} [label={}{}];\n", in_quotes(network.vertices[e.from].name),
                    in_quotes(network.vertices[e.to].name), in_quotes(rate_text(e.rate)), e.both ? ", dir=both" : "");
  }
  return out + "}\n";
}

}  // namespace epsim
