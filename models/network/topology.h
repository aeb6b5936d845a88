// The network of a cluster as a directed graph, and the routes through it (physics.md section 3: routes come from the
// graph, not from formulas per case).
//
//   Models : GPUs, switches and NICs as vertices; every direction of a cable as a link with its data-sheet rate.
//            Traffic between nodes leaves through the sender's own NIC group, or the one of its node that has the
//            receiver's index (PXN, see pxn.h), and enters through the receiver's own.
//   Ignores: the backplane of a switch (taken as non-blocking), adaptive routing, what a NIC pipelines.
//   Routes : fewest links; among those the one whose vertices have the lowest ids, first hop first. GPUs and NICs are
//            end points: nothing is passed on by a GPU but a relay, and a NIC only joins its node to the fabric.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

// A link that is never the bottleneck, because no figure bounds it apart from its neighbours' rates.
inline constexpr BytesPerSecond kUnlimited{std::numeric_limits<double>::infinity()};

enum class VertexKind { kGpu, kNvSwitch, kHostBridge, kNic, kLeaf, kSpine };

struct TopologyVertex {
  std::string name;
  VertexKind kind = VertexKind::kGpu;
  int node = -1;     // -1 = belongs to no node: the fabric between them
  int own_nic = -1;  // of a GPU: the vertex of its NIC group; -1 = none
};

// One direction.
struct TopologyLink {
  std::string name;
  int from = 0, to = 0;  // vertices
  BytesPerSecond rate{};
};

// What to build: a plain value, so that a caller can change a rate or leave a link out first. Vertices 0 .. gpus - 1
// are the GPUs, node by node.
struct TopologyPlan {
  std::vector<TopologyVertex> vertices;
  std::vector<TopologyLink> links;

  int add(TopologyVertex vertex);
  // Two links: `up` from a to b, `down` back.
  void connect(int a, int b, BytesPerSecond rate, const std::string& up, const std::string& down);
};

// By which NIC group of its node traffic leaves.
enum class LeaveBy { kOwnNic, kReceiversRail };

class Topology {
 public:
  // Finds all routes. Throws InputError, naming it, at a link without a positive rate and at two GPUs that cannot reach
  // each other. kReceiversRail is for nodes of as many GPUs each.
  explicit Topology(TopologyPlan plan, LeaveBy leave_by = LeaveBy::kOwnNic);

  int gpus() const { return gpus_; }
  const std::vector<TopologyVertex>& vertices() const { return plan_.vertices; }
  const std::vector<TopologyLink>& links() const { return plan_.links; }

  // The links from one GPU to another, in order; none for a GPU to itself. InputError for a GPU that does not exist.
  std::vector<int> route(int from_gpu, int to_gpu) const;
  // The GPU whose NIC group that route leaves its node by: itself, or the first GPU that has the relaying NIC group.
  int relay(int from_gpu, int to_gpu) const;

 private:
  void check_rates() const;
  void check_routes() const;
  void check_route(int from, int to, const std::string& why) const;
  void append(int from, int to, std::vector<int>& out) const;
  const TopologyVertex& vertex(int v) const { return plan_.vertices[static_cast<std::size_t>(v)]; }

  TopologyPlan plan_;
  LeaveBy leave_by_;
  int gpus_ = 0, gpus_per_node_ = 0;  // the latter of the first node
  // [target][vertex] first link of the route from a vertex to a GPU or NIC, -1 = no route; empty for other targets.
  std::vector<std::vector<int>> next_;
};

}  // namespace epsim
