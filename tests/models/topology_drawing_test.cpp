#include "models/network/topology_drawing.h"

#include <doctest/doctest.h>

#include "models/network/fabric.h"
#include "tests/models/clusters.h"
#include "tests/support/errors.h"

using namespace epsim;
using test::small_cluster;

namespace {

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
    ++found;
  }
  return found;
}

}  // namespace

TEST_CASE("DOT: one box per node, one edge per cable, its rate beside it") {
  const std::string dot = to_dot(plan_topology(small_cluster(2)));
  test::check_contains(dot, {"digraph topology {", "subgraph cluster_node1", "label=\"node 1\"", "2 nodes.",
                             "\"gpu0\" -> \"node0.nvswitch\" [label=\"100 GB/s\", dir=both]",
                             "\"node1.nic1\" -> \"fabric\" [label=\"10 GB/s\", dir=both]", "no own limit"});
  CHECK(count(dot, "->") == 8 + 8 + 4);  // ports, GPU to NIC, NIC to fabric
  CHECK(count(dot, "{") == count(dot, "}"));
}

TEST_CASE("a cable with two rates is two edges") {
  TopologyPlan plan = plan_topology(small_cluster(1));
  plan.links[0].rate = BytesPerSecond(50e9);  // gpu0.port.out
  const std::string dot = to_dot(plan);
  test::check_contains(dot, {"\"gpu0\" -> \"node0.nvswitch\" [label=\"50 GB/s\"];",
                             "\"node0.nvswitch\" -> \"gpu0\" [label=\"100 GB/s\"];"});
}

TEST_CASE("beyond the nodes asked for the drawing is cut and says so") {
  const TopologyPlan network =
      plan_topology(small_cluster(9), {.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 3, .oversubscription = 2.0});
  // Nodes 0 to 3 hang on leaves 0 and 1 of three; with the spine, 3 of 4 switches.
  const std::string drawing = to_dot(network, 4);
  test::check_contains(drawing, {"4 of 9 nodes and 3 of 4 switches between them are drawn; the others are alike."});
  CHECK(drawing.find("node4") == std::string::npos);
  CHECK(drawing.find("leaf2") == std::string::npos);
  CHECK(drawing.find("gpu16") == std::string::npos);
  CHECK(drawing.find("gpu15") != std::string::npos);
  CHECK(count(to_dot(network, 9), "subgraph") == 9);
  CHECK(count(to_dot(network), "subgraph") == 2);
}

TEST_CASE("names that need escaping, and one node without NICs") {
  ClusterSpec box = small_cluster(1);
  box.node.nics = 0;
  TopologyPlan plan = plan_topology(box);
  plan.vertices[0].name = "a<b>&\"c\"";
  test::check_contains(to_dot(plan), {"\"a<b>&\\\"c\\\"\" -> ", "1 node."});
}

// With a route for every two of them they took 72 GB.
TEST_CASE("a network of 65,536 GPUs is drawn without its routes") {
  test::check_contains(to_dot(plan_topology(small_cluster(16384))), {"2 of 16384 nodes", "\"gpu7\" -> "});
}
