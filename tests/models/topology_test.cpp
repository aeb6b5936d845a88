#include "models/network/topology.h"

#include <doctest/doctest.h>

#include "models/network/fabric.h"
#include "sim/core/error.h"
#include "tests/models/clusters.h"
#include "tests/support/errors.h"

using namespace epsim;
using namespace epsim::literals;
using test::small_cluster;

namespace {

// The route as names, so that a test reads like the way a packet takes.
std::vector<std::string> way(const Topology& topology, int from, int to) {
  std::vector<std::string> names;
  for (const int link : topology.route(from, to)) {
    names.push_back(topology.links()[static_cast<std::size_t>(link)].name);
  }
  return names;
}

const TopologyLink& link_named(const std::vector<TopologyLink>& links, const std::string& name) {
  for (const TopologyLink& link : links) {
    if (link.name == name) {
      return link;
    }
  }
  FAIL("no link is named ", name);
  return links.front();
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("one switch between the nodes: ports inside, own NICs outside") {
  const Topology t(plan_topology(small_cluster(2)));  // 4 GPUs and 2 NICs a node
  CHECK(t.gpus() == 8);
  // 8 GPUs, 2 NVSwitches, 4 NICs, 1 fabric; links: 8 ports, 8 GPU-NIC paths, 4 NICs, both ways.
  CHECK(t.vertices().size() == 8 + 2 + 4 + 1);
  CHECK(t.links().size() == 2 * (8 + 8 + 4));
  CHECK(way(t, 3, 3).empty());
  CHECK(way(t, 0, 3) == Names{"gpu0.port.out", "gpu3.port.in"});
  // GPUs 0 and 1 share a NIC too, but the switch is what joins the GPUs of a node.
  CHECK(way(t, 0, 1) == Names{"gpu0.port.out", "gpu1.port.in"});
  CHECK(way(t, 1, 6) == Names{"gpu1.nic.out", "node0.nic0.out", "node1.nic1.in", "gpu6.nic.in"});
  CHECK(link_named(t.links(), "gpu5.port.in").rate == 100_GBps);
  CHECK(link_named(t.links(), "node1.nic0.out").rate == 10_GBps);
  CHECK(link_named(t.links(), "gpu5.nic.in").rate == kUnlimited);
}

TEST_CASE("NIC groups: the greatest common divisor of GPUs and NICs") {
  struct Row {
    int gpus, nics, per_group, groups;
    double rate;
  };
  // p4de: 4 NICs of 12.5 GB/s for 8 GPUs. p5: 32 NICs, 4 a GPU. 6 NICs for 8 GPUs: 2 groups of 4 GPUs and 3 NICs.
  for (const Row& r : {Row{8, 4, 2, 4, 12.5}, Row{8, 32, 1, 8, 50}, Row{8, 6, 4, 2, 37.5}, Row{8, 0, 0, 0, 0}}) {
    CAPTURE(r.nics);
    NodeSpec node;
    node.gpus = r.gpus;
    node.nics = r.nics;
    node.nic_rate = 12.5_GBps;
    const NicGroups groups = nic_groups(node);
    CHECK(groups.gpus_per_group == r.per_group);
    CHECK(groups.groups_per_node == r.groups);
    CHECK(groups.rate.count() == doctest::Approx(r.rate * 1e9));
  }
}

TEST_CASE("leaves under a spine: the way up is narrower by the oversubscription") {
  const Topology t(
      plan_topology(small_cluster(5), {.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 2, .oversubscription = 4.0}));
  // Same leaf: the spine is not on the way. Nodes 0 and 3 are on leaves 0 and 1.
  CHECK(way(t, 0, 4) == Names{"gpu0.nic.out", "node0.nic0.out", "node1.nic0.in", "gpu4.nic.in"});
  CHECK(way(t, 0, 12) ==
        Names{"gpu0.nic.out", "node0.nic0.out", "leaf0.up", "leaf1.down", "node3.nic0.in", "gpu12.nic.in"});
  // Two nodes of 2 x 10 GB/s on a leaf: 40 GB/s down, 10 GB/s up. The last leaf has one node.
  CHECK(link_named(t.links(), "leaf0.up").rate.count() == doctest::Approx(10e9));
  CHECK(link_named(t.links(), "leaf2.down").rate.count() == doctest::Approx(5e9));
}

TEST_CASE("rails: equal NIC numbers meet in one switch, others cross the spine") {
  const Topology t(plan_topology(small_cluster(3), {.kind = FabricKind::kRailOptimised, .oversubscription = 2.0}));
  CHECK(way(t, 0, 9) == Names{"gpu0.nic.out", "node0.nic0.out", "node2.nic0.in", "gpu9.nic.in"});
  CHECK(way(t, 0, 10) ==
        Names{"gpu0.nic.out", "node0.nic0.out", "rail0.up", "rail1.down", "node2.nic1.in", "gpu10.nic.in"});
  CHECK(link_named(t.links(), "rail1.up").rate.count() == doctest::Approx(3 * 10e9 / 2));
}

TEST_CASE("a PCIe node: bridges between GPUs, and every GPU keeps to its own NIC") {
  ClusterSpec cluster = small_cluster(2);
  cluster.node.intra = IntraLink::kPcie;
  const Topology t(plan_topology(cluster, {.host_bridges = 2, .bridge_rate = 20_GBps}));
  CHECK(way(t, 0, 1) == Names{"gpu0.port.out", "gpu1.port.in"});
  CHECK(way(t, 0, 2) == Names{"gpu0.port.out", "node0.bridge0.to1", "gpu2.port.in"});
  CHECK(way(t, 3, 4) == Names{"gpu3.port.out", "node0.nic1.bridge.out", "node0.nic1.out", "node1.nic0.in",
                              "node1.nic0.bridge.in", "gpu4.port.in"});
  // One bridge for all: both NICs are equally near, and still each GPU uses its own.
  const Topology one(plan_topology(cluster));
  CHECK(way(one, 3, 4)[2] == "node0.nic1.out");
  CHECK(way(one, 1, 4)[2] == "node0.nic0.out");
}

TEST_CASE("a single node has no fabric, and a node of one GPU no switch") {
  ClusterSpec box = small_cluster(1);
  box.node.nics = 0;
  CHECK(Topology(plan_topology(box)).links().size() == 2 * 4);
  ClusterSpec single = small_cluster(3);
  single.node.gpus = 1;
  single.node.nics = 1;
  const Topology t(plan_topology(single));
  CHECK(way(t, 2, 0) == Names{"gpu2.nic.out", "node2.nic0.out", "node0.nic0.in", "gpu0.nic.in"});
}

TEST_CASE("of equally short routes the one over the lowest vertices is taken") {
  // Two NVSwitches join the same two GPUs; the second one's links come first.
  TopologyPlan plan;
  plan.add({"gpu0", VertexKind::kGpu, 0});
  plan.add({"gpu1", VertexKind::kGpu, 0});
  const int low = plan.add({"low", VertexKind::kNvSwitch, 0}), high = plan.add({"high", VertexKind::kNvSwitch, 0});
  for (const int via : {high, low}) {
    for (const int gpu : {0, 1}) {
      const std::string name = plan.vertices[static_cast<std::size_t>(via)].name + std::to_string(gpu);
      plan.connect(gpu, via, 1_GBps, name + ".up", name + ".down");
    }
  }
  CHECK(way(Topology(plan), 0, 1) == Names{"low0.up", "low1.down"});
}

TEST_CASE("every pair of GPUs is joined by a chain of links, and nobody's GPU or NIC is passed through") {
  for (const FabricOptions& options :
       {FabricOptions{}, FabricOptions{.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 3, .oversubscription = 2},
        FabricOptions{.kind = FabricKind::kRailOptimised}}) {
    const Topology t(plan_topology(small_cluster(7), options));
    for (int a = 0; a < t.gpus(); ++a) {
      for (int b = 0; b < t.gpus(); ++b) {
        int here = a;
        for (const int link : t.route(a, b)) {
          const TopologyLink& l = t.links()[static_cast<std::size_t>(link)];
          REQUIRE(l.from == here);
          here = l.to;
          const TopologyVertex& v = t.vertices()[static_cast<std::size_t>(here)];
          const bool own_nic = here == t.vertices()[static_cast<std::size_t>(a)].own_nic ||
                               here == t.vertices()[static_cast<std::size_t>(b)].own_nic;
          REQUIRE((here == b || v.kind == VertexKind::kNvSwitch || v.kind == VertexKind::kLeaf ||
                   v.kind == VertexKind::kSpine || (v.kind == VertexKind::kNic && own_nic)));
        }
        REQUIRE(here == b);
      }
    }
  }
}

TEST_CASE("a link without a rate is named") {
  TopologyPlan plan = plan_topology(small_cluster(2));
  for (TopologyLink& link : plan.links) {
    link.rate = link.name == "node1.nic0.in" ? BytesPerSecond(0) : link.rate;
  }
  const auto error = test::error_of<InputError>([&] { Topology t(plan); });
  CHECK(error.place.key == "node1.nic0.in");
  test::check_contains(error.what(), {"from fabric to node1.nic0", "0 B/s", "positive"});
}

TEST_CASE("a topology in two pieces is an error that names who cannot be reached") {
  const TopologyPlan whole = plan_topology(small_cluster(2));
  const auto without = [&](const std::string& name) {
    TopologyPlan plan = whole;
    std::erase_if(plan.links, [&](const TopologyLink& link) { return link.name == name; });
    return test::error_of<InputError>([&] { Topology t(plan); });
  };
  test::check_contains(without("node1.nic0.in").what(), {"disconnected", "from node0.nic0 to node1.nic0"});
  test::check_contains(without("gpu2.port.out").what(), {"disconnected", "from gpu2 to gpu0", "switch"});
  test::check_contains(without("gpu5.nic.in").what(), {"disconnected", "from node1.nic0 to gpu5", "own NIC"});
  TopologyPlan plan = whole;
  plan.vertices[6].own_nic = -1;
  test::check_contains(test::error_of<InputError>([&] { Topology t(plan); }).what(), {"gpu6 has no NIC"});
}

TEST_CASE("options that do not fit the fabric are refused by name") {
  struct Row {
    FabricOptions options;
    const char *key, *says;
  };
  const Row rows[] = {
      {{.kind = FabricKind::kLeafSpine}, "nodes_per_leaf", "at least one node"},
      {{.kind = FabricKind::kRailOptimised, .nodes_per_leaf = 2}, "nodes_per_leaf", "rail_optimised"},
      {{.kind = FabricKind::kRailOptimised, .oversubscription = 0}, "oversubscription", "positive"},
      {{.oversubscription = 2}, "oversubscription", "single_switch"},
      {{.host_bridges = 2, .bridge_rate = 20_GBps}, "host_bridges", "NVSwitch"},
  };
  for (const Row& r : rows) {
    CAPTURE(r.says);
    const auto error = test::error_of<InputError>([&] { plan_topology(small_cluster(4), r.options); });
    CHECK(error.place.key == r.key);
    test::check_contains(error.what(), {r.says});
  }
  ClusterSpec pcie = small_cluster(2);
  pcie.node.intra = IntraLink::kPcie;
  // Two bridges and no rate between them: the option is named.
  CHECK(test::error_of<InputError>([&] { Topology t(plan_topology(pcie, {.host_bridges = 2})); }).place.key ==
        "bridge_rate");
  CHECK(test::error_of<InputError>([&] { plan_topology(pcie, {.host_bridges = 5}); }).place.key == "host_bridges");
  const Topology t(plan_topology(pcie));
  test::check_contains(test::error_of<InputError>([&] { t.route(0, 8); }).what(), {"GPU 8", "0 to 7"});
}
