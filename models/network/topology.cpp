#include "models/network/topology.h"

#include <fmt/format.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/graph/reverse_graph.hpp>
#include <utility>

#include "sim/core/check.h"
#include "sim/core/error.h"

namespace epsim {
namespace {

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, boost::no_property,
                                    boost::property<boost::edge_index_t, int>>;
constexpr int kNoRoute = -1;

bool is_end_point(VertexKind kind) { return kind == VertexKind::kGpu || kind == VertexKind::kNic; }

// Lets a search towards `target` use the links that lead to a switch, or to the target itself.
class Towards {
 public:
  Towards() = default;
  Towards(const Graph& graph, const std::vector<TopologyVertex>& vertices, int target)
      : graph_(&graph), vertices_(&vertices), target_(target) {}
  bool operator()(const Graph::edge_descriptor& edge) const {
    const std::size_t head = boost::target(edge, *graph_);
    return head == target_ || !is_end_point((*vertices_)[head].kind);
  }

 private:
  const Graph* graph_ = nullptr;
  const std::vector<TopologyVertex>* vertices_ = nullptr;
  std::size_t target_ = 0;
};

Graph graph_of(const TopologyPlan& plan) {
  Graph graph(plan.vertices.size());
  for (std::size_t i = 0; i < plan.links.size(); ++i) {
    const TopologyLink& link = plan.links[i];
    boost::add_edge(static_cast<std::size_t>(link.from), static_cast<std::size_t>(link.to), static_cast<int>(i), graph);
  }
  return graph;
}

// [vertex] links to go from there to `target`; kNoRoute where none leads.
std::vector<int> distances_to(const Graph& graph, const std::vector<TopologyVertex>& vertices, int target) {
  const boost::filtered_graph<Graph, Towards> towards(graph, Towards(graph, vertices, target));
  const auto back = boost::make_reverse_graph(towards);
  std::vector<int> distance(vertices.size(), kNoRoute);
  distance[target] = 0;
  const auto by_vertex = boost::make_iterator_property_map(distance.begin(), boost::get(boost::vertex_index, back));
  boost::breadth_first_search(
      back, static_cast<std::size_t>(target),
      boost::visitor(boost::make_bfs_visitor(boost::record_distances(by_vertex, boost::on_tree_edge()))));
  return distance;
}

// [vertex] the first link of a shortest way to `target`: of several, the one to the lowest vertex.
std::vector<int> first_links(const Graph& graph, const TopologyPlan& plan, int target) {
  const std::vector<int> distance = distances_to(graph, plan.vertices, target);
  const Towards allowed(graph, plan.vertices, target);
  std::vector<int> first(plan.vertices.size(), kNoRoute);
  std::vector<std::size_t> chosen_head(plan.vertices.size(), plan.vertices.size());
  for (const Graph::edge_descriptor& edge : boost::make_iterator_range(boost::edges(graph))) {
    const std::size_t tail = boost::source(edge, graph), head = boost::target(edge, graph);
    const bool shortest = distance[head] != kNoRoute && distance[tail] == distance[head] + 1 && allowed(edge);
    if (shortest && head < chosen_head[tail]) {
      chosen_head[tail] = head;
      first[tail] = boost::get(boost::edge_index, graph, edge);
    }
  }
  return first;
}

}  // namespace

int TopologyPlan::add(TopologyVertex vertex) {
  vertices.push_back(std::move(vertex));
  return static_cast<int>(vertices.size()) - 1;
}

void TopologyPlan::connect(int a, int b, BytesPerSecond rate, const std::string& up, const std::string& down) {
  links.push_back({up, a, b, rate});
  links.push_back({down, b, a, rate});
}

Topology::Topology(TopologyPlan plan, LeaveBy leave_by) : plan_(std::move(plan)), leave_by_(leave_by) {
  while (gpus_ < static_cast<int>(plan_.vertices.size()) && vertex(gpus_).kind == VertexKind::kGpu) {
    gpus_per_node_ += vertex(gpus_).node == vertex(0).node ? 1 : 0;
    ++gpus_;
  }
  for (int v = gpus_; v < static_cast<int>(plan_.vertices.size()); ++v) {
    EPSIM_CHECK(vertex(v).kind != VertexKind::kGpu, "GPUs come first among the vertices");
  }
  check_rates();
  const Graph graph = graph_of(plan_);
  next_.resize(plan_.vertices.size());
  for (std::size_t v = 0; v < next_.size(); ++v) {
    if (is_end_point(plan_.vertices[v].kind)) {
      next_[v] = first_links(graph, plan_, static_cast<int>(v));
    }
  }
  check_routes();
}

void Topology::check_rates() const {
  const auto vertices = static_cast<int>(plan_.vertices.size());
  for (const TopologyLink& link : plan_.links) {
    EPSIM_CHECK(link.from >= 0 && link.from < vertices && link.to >= 0 && link.to < vertices, "a link joins vertices");
    if (!(link.rate.count() > 0)) {
      throw InputError({"", 0, link.name},
                       fmt::format("the link {} from {} to {} has a rate of {} B/s; a link needs a positive rate (a "
                                   "cable that is not there is left out).",
                                   link.name, vertex(link.from).name, vertex(link.to).name, link.rate.count()));
    }
  }
}

void Topology::check_route(int from, int to, const std::string& why) const {
  if (from != to && next_[to][from] == kNoRoute) {
    throw InputError({"", 0, vertex(from).name},
                     fmt::format("the topology is disconnected: no links lead from {} to {}. {}", vertex(from).name,
                                 vertex(to).name, why));
  }
}

void Topology::check_routes() const {
  std::vector<int> nics;
  for (int a = 0; a < gpus_; ++a) {
    for (int b = 0; b < gpus_; ++b) {
      if (vertex(a).node == vertex(b).node) {
        check_route(a, b, "The GPUs of a node need a switch or a bridge between them.");
      } else if (vertex(a).own_nic < 0) {
        throw InputError({"", 0, vertex(a).name},
                         fmt::format("the topology is disconnected: {} has no NIC, so it cannot reach {} in another "
                                     "node.",
                                     vertex(a).name, vertex(b).name));
      }
    }
    const int nic = vertex(a).own_nic;
    if (nic >= 0) {
      check_route(a, nic, "A GPU reaches other nodes through its own NIC group.");
      check_route(nic, a, "A GPU is reached from other nodes through its own NIC group.");
      nics.push_back(nic);
    }
  }
  for (const int a : nics) {
    for (const int b : nics) {
      if (vertex(a).node != vertex(b).node) {
        check_route(a, b, "The NICs of different nodes meet in the fabric.");
      }
    }
  }
}

void Topology::append(int from, int to, std::vector<int>& out) const {
  const std::vector<int>& next = next_[to];
  while (from != to) {
    const int link = next[from];
    out.push_back(link);
    from = plan_.links[link].to;
  }
}

int Topology::relay(int from_gpu, int to_gpu) const {
  if (leave_by_ == LeaveBy::kOwnNic || vertex(from_gpu).node == vertex(to_gpu).node) {
    return from_gpu;
  }
  const int first = from_gpu - from_gpu % gpus_per_node_;
  const int nic = vertex(first + to_gpu % gpus_per_node_).own_nic;
  int via = first;
  while (vertex(via).own_nic != nic) {
    ++via;
  }
  return via;
}

std::vector<int> Topology::route(int from_gpu, int to_gpu) const {
  for (const int gpu : {from_gpu, to_gpu}) {
    if (gpu < 0 || gpu >= gpus_) {
      throw InputError({"", 0, "gpu"},
                       fmt::format("GPU {} does not exist; this topology has GPUs 0 to {}.", gpu, gpus_ - 1));
    }
  }
  std::vector<int> out;
  if (vertex(from_gpu).node == vertex(to_gpu).node) {
    append(from_gpu, to_gpu, out);
    return out;
  }
  const int via = relay(from_gpu, to_gpu), leave = vertex(via).own_nic, enter = vertex(to_gpu).own_nic;
  append(from_gpu, via, out);
  append(via, leave, out);
  append(leave, enter, out);
  append(enter, to_gpu, out);
  return out;
}

}  // namespace epsim
