#include "models/network/topology_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "sim/core/check.h"

namespace epsim {
namespace {

struct Edge {
  int from, to;
  BytesPerSecond rate;
  bool both;  // the way back has the same rate
  std::string name;
};

// What of a topology is drawn.
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
  return rate == kUnlimited ? "no limit of its own" : fmt::format("{:.4g} GB/s", rate.count() / 1e9);
}

bool in_fabric(const TopologyVertex& v) { return v.node < 0; }

// Vertices of the first nodes, the leaves that these hang on, and the spines above those.
std::vector<bool> shown_vertices(const Topology& topology, int max_nodes) {
  const std::vector<TopologyVertex>& vertices = topology.vertices();
  std::vector<bool> shown;
  for (const TopologyVertex& v : vertices) {
    shown.push_back(!in_fabric(v) && v.node < max_nodes);
  }
  for (const VertexKind tier : {VertexKind::kLeaf, VertexKind::kSpine}) {
    for (const TopologyLink& link : topology.links()) {
      const std::size_t from = link.from, to = link.to;
      shown[to] = shown[to] || (shown[from] && vertices[to].kind == tier);
    }
  }
  return shown;
}

std::vector<Edge> edges_between(const Topology& topology, const std::vector<bool>& shown) {
  std::map<std::pair<int, int>, BytesPerSecond> rate;
  std::set<std::pair<int, int>> drawn;
  for (const TopologyLink& link : topology.links()) {
    rate[{link.from, link.to}] = link.rate;
  }
  std::vector<Edge> edges;
  for (const TopologyLink& link : topology.links()) {
    const auto back = rate.find({link.to, link.from});
    const bool both = back != rate.end() && back->second == link.rate;
    const bool seen = both && drawn.contains({link.to, link.from});
    if (shown[link.from] && shown[link.to] && !seen) {
      edges.push_back({link.from, link.to, link.rate, both, link.name});
      drawn.insert({link.from, link.to});
    }
  }
  return edges;
}

View view_of(const Topology& topology, int max_nodes) {
  EPSIM_CHECK(max_nodes >= 1, "a drawing shows at least one node");
  const std::vector<bool> shown = shown_vertices(topology, max_nodes);
  View view;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const TopologyVertex& v = topology.vertices()[i];
    view.nodes = std::max(view.nodes, v.node + 1);
    view.switches += in_fabric(v) ? 1 : 0;
    view.drawn_switches += in_fabric(v) && shown[i] ? 1 : 0;
    if (shown[i]) {
      view.vertices.push_back(static_cast<int>(i));
    }
  }
  view.drawn_nodes = std::min(view.nodes, max_nodes);
  view.edges = edges_between(topology, shown);
  return view;
}

std::string quoted(const std::string& name) {
  std::string out = "\"";
  for (const char c : name) {
    out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  }
  return out + '"';
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string{c};
  }
  return out;
}

// "node0.nic1" inside its node's box is "nic1".
std::string short_name(const TopologyVertex& v) {
  const std::size_t dot = v.name.rfind('.');
  return dot == std::string::npos ? v.name : v.name.substr(dot + 1);
}

struct Point {
  double x = 0, y = 0;
};

// Places every vertex of a view: GPUs side by side, what joins them in the middle above or below, the fabric spread
// over the whole width.
class Layout {
 public:
  static constexpr double kBoxWidth = 60, kBoxHeight = 24, kColumn = 70, kRow = 92, kNodeGap = 36, kMargin = 24;

  Layout(const Topology& topology, const View& view) : topology_(topology), view_(view) {
    place_gpus();
    for (const VertexKind kind : {VertexKind::kNvSwitch, VertexKind::kHostBridge, VertexKind::kNic}) {
      place_between_neighbours(kind);
    }
    for (const VertexKind kind : {VertexKind::kLeaf, VertexKind::kSpine}) {
      spread(kind);
    }
  }
  Point at(int v) const { return points_.at(v); }
  double width() const { return width_; }
  double height() const { return y_of(lowest()) + kRow; }
  // Left edge and width of a node's box.
  std::pair<double, double> node_box(int node) const { return node_boxes_.at(node); }
  double top_of_nodes() const { return y_of(has(VertexKind::kNic) ? VertexKind::kNic : highest_inside()); }
  double bottom_of_nodes() const { return y_of(lowest()); }

 private:
  const TopologyVertex& vertex(int v) const { return topology_.vertices()[v]; }
  bool has(VertexKind kind) const {
    return std::any_of(view_.vertices.begin(), view_.vertices.end(), [&](int v) { return vertex(v).kind == kind; });
  }
  VertexKind lowest() const { return has(VertexKind::kNvSwitch) ? VertexKind::kNvSwitch : VertexKind::kGpu; }
  VertexKind highest_inside() const {
    return has(VertexKind::kHostBridge) ? VertexKind::kHostBridge : VertexKind::kGpu;
  }

  // Rows that nobody stands in take no room.
  double y_of(VertexKind kind) const {
    double y = kMargin + kBoxHeight;
    for (const VertexKind above : {VertexKind::kSpine, VertexKind::kLeaf, VertexKind::kNic, VertexKind::kHostBridge,
                                   VertexKind::kGpu, VertexKind::kNvSwitch}) {
      if (above == kind) {
        break;
      }
      y += has(above) ? kRow : 0.0;
    }
    return y;
  }

  void place_gpus() {
    double x = kMargin;
    int node = -1;
    for (const int v : view_.vertices) {
      if (vertex(v).kind != VertexKind::kGpu) {
        continue;
      }
      if (vertex(v).node != node) {
        x += node < 0 ? 0.0 : kNodeGap;
        node = vertex(v).node;
        node_boxes_[node] = {x, 0};
      }
      points_[v] = {x + kColumn / 2, y_of(VertexKind::kGpu)};
      x += kColumn;
      node_boxes_[node].second = x - node_boxes_[node].first;
    }
    width_ = x + kMargin;
  }

  // Over or under the middle of the GPUs that use it.
  void place_between_neighbours(VertexKind kind) {
    for (const int v : view_.vertices) {
      if (vertex(v).kind != kind) {
        continue;
      }
      double sum = 0, count = 0;
      for (const auto& [gpu, point] : points_) {
        const bool uses = kind == VertexKind::kNic ? vertex(gpu).own_nic == v : joined(gpu, v);
        if (vertex(gpu).kind == VertexKind::kGpu && uses) {
          sum += point.x;
          count += 1;
        }
      }
      EPSIM_CHECK(count > 0, "a switch or NIC inside a node serves some GPU");
      points_[v] = {sum / count, y_of(kind)};
    }
  }

  bool joined(int a, int b) const {
    return std::any_of(view_.edges.begin(), view_.edges.end(),
                       [&](const Edge& e) { return (e.from == a && e.to == b) || (e.from == b && e.to == a); });
  }

  void spread(VertexKind kind) {
    std::vector<int> row;
    std::copy_if(view_.vertices.begin(), view_.vertices.end(), std::back_inserter(row),
                 [&](int v) { return vertex(v).kind == kind; });
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(row.size());
      points_[row[i]] = {kMargin + share * (width_ - 2 * kMargin), y_of(kind)};
    }
  }

  const Topology& topology_;
  const View& view_;
  std::map<int, Point> points_;
  std::map<int, std::pair<double, double>> node_boxes_;
  double width_ = 0;
};

// One line per kind of link: "gpu - nvswitch: 300 GB/s each way".
std::vector<std::string> legend(const Topology& topology, const View& view) {
  std::vector<std::string> lines;
  const auto kind = [&](int v) { return kVertexKindNames[static_cast<std::size_t>(topology.vertices()[v].kind)]; };
  for (const Edge& e : view.edges) {
    const std::string line = fmt::format("{} {} {}: {}{}", kind(e.from), e.both ? "-" : "to", kind(e.to),
                                         rate_text(e.rate), e.both && e.rate != kUnlimited ? " each way" : "");
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
      lines.push_back(line);
    }
  }
  lines.push_back(view.note());
  return lines;
}

constexpr std::string_view kStyle =
    "<style>text{font:12px sans-serif;text-anchor:middle;fill:#222}.legend{text-anchor:start}"
    ".rate{font-size:11px;paint-order:stroke;stroke:#fff;stroke-width:3px}svg{background:#fff}"
    "line{stroke:#888;stroke-width:1.2}rect{stroke:#444;rx:4}.node{fill:#f6f6f4;stroke:#bbb}.gpu{fill:#cfe8cf}"
    ".nvswitch{fill:#cfdff3}.host_bridge{fill:#e3d7f0}.nic{fill:#fbe3b8}.leaf{fill:#f5cfc8}.spine{fill:#f0b8ae}"
    "</style>\n";

std::string svg_boxes(const Topology& topology, const View& view, const Layout& layout) {
  std::string out;
  for (const int v : view.vertices) {
    const TopologyVertex& vertex = topology.vertices()[v];
    const Point p = layout.at(v);
    out += fmt::format(
        "<g><title>{}</title><rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text></g>\n",
        escaped(vertex.name), kVertexKindNames[static_cast<std::size_t>(vertex.kind)], p.x - Layout::kBoxWidth / 2,
        p.y - Layout::kBoxHeight / 2, Layout::kBoxWidth, Layout::kBoxHeight, p.x, p.y + 4, escaped(short_name(vertex)));
  }
  return out;
}

// Every cable with its rate beside it: near the end that has fewer cables, where they are furthest apart. Of a cable
// with two rates, each stands near the end that sends.
std::string svg_edges(const View& view, const Layout& layout) {
  constexpr double kPlace = 0.23;  // from that end
  std::map<int, int> degree;
  for (const Edge& e : view.edges) {
    ++degree[e.from];
    ++degree[e.to];
  }
  std::string lines, rates;
  for (const Edge& e : view.edges) {
    const bool turned = e.both && degree[e.to] < degree[e.from];
    const Point a = layout.at(turned ? e.to : e.from), b = layout.at(turned ? e.from : e.to);
    lines += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"><title>{}: {}</title></line>\n",
                         a.x, a.y, b.x, b.y, escaped(e.name), rate_text(e.rate));
    if (e.rate != kUnlimited) {
      rates += fmt::format("<text class=\"rate\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", a.x + kPlace * (b.x - a.x),
                           a.y + kPlace * (b.y - a.y) + 4, rate_text(e.rate));
    }
  }
  return lines + rates;
}

std::string svg_nodes(const View& view, const Layout& layout) {
  std::string out;
  const double top = layout.top_of_nodes() - Layout::kBoxHeight;
  const double height = layout.bottom_of_nodes() + Layout::kBoxHeight + 16 - top;  // the title is below all lines
  for (int node = 0; node < view.drawn_nodes; ++node) {
    const auto [left, width] = layout.node_box(node);
    out += fmt::format(
        "<rect class=\"node\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>"
        "<text class=\"legend\" x=\"{:.1f}\" y=\"{:.1f}\">node {}</text>\n",
        left, top, width, height, left + 6, top + height - 6, node);
  }
  return out;
}

}  // namespace

std::string to_dot(const Topology& topology, int max_nodes) {
  const View view = view_of(topology, max_nodes);
  std::string out =
      fmt::format("digraph topology {{\n  graph [label={}, labelloc=b];\n  node [shape=box];\n", quoted(view.note()));
  for (int node = 0; node < view.drawn_nodes; ++node) {
    out += fmt::format("  subgraph cluster_node{} {{\n    label=\"node {}\";\n", node, node);
    for (const int v : view.vertices) {
      const TopologyVertex& vertex = topology.vertices()[v];
      out += vertex.node == node ? fmt::format("    {};\n", quoted(vertex.name)) : "";
    }
    out += "  }\n";
  }
  for (const Edge& e : view.edges) {
    out += fmt::format("  {} -> {} [label={}{}];\n", quoted(topology.vertices()[e.from].name),
                       quoted(topology.vertices()[e.to].name), quoted(rate_text(e.rate)), e.both ? ", dir=both" : "");
  }
  return out + "}\n";
}

std::string to_svg(const Topology& topology, int max_nodes) {
  constexpr double kLine = 16;
  const View view = view_of(topology, max_nodes);
  const Layout layout(topology, view);
  const std::vector<std::string> lines = legend(topology, view);
  const double height = layout.height() + kLine * static_cast<double>(lines.size());
  const double width = std::max(layout.width(), 560.0);  // room for the note
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\">\n",
      width, height, width, height);
  out += kStyle;
  out += svg_nodes(view, layout);
  out += svg_edges(view, layout);
  out += svg_boxes(topology, view, layout);
  double y = layout.height() - kLine;
  for (const std::string& line : lines) {
    out += fmt::format("<text class=\"legend\" x=\"{}\" y=\"{:.1f}\">{}</text>\n", Layout::kMargin, y, escaped(line));
    y += kLine;
  }
  return out + "</svg>\n";
}

}  // namespace epsim
