#include "models/network/max_min.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "models/network/fabric.h"
#include "sim/core/error.h"
#include "sim/core/rng.h"
#include "tests/models/clusters.h"
#include "tests/support/errors.h"

using namespace epsim;
using namespace epsim::literals;
using test::small_cluster;

namespace {

// Links in a row, each with a rate in GB/s, and a GPU at every joint: flow i -> j crosses links i .. j - 1.
Topology chain(const std::vector<double>& rates) {
  TopologyPlan plan;
  const auto joints = static_cast<int>(rates.size()) + 1;
  for (int g = 0; g < joints; ++g) {
    plan.add({"gpu" + std::to_string(g), VertexKind::kGpu, 0});
  }
  for (int s = 0; s < joints; ++s) {
    const std::string name = std::to_string(plan.add({"switch", VertexKind::kNvSwitch, 0}) - joints);
    plan.connect(s, joints + s, kUnlimited, "gpu" + name + ".out", "gpu" + name + ".in");
  }
  for (int s = 0; s + 1 < joints; ++s) {
    const std::string name = "link" + std::to_string(s);
    plan.connect(joints + s, joints + s + 1, BytesPerSecond(rates[static_cast<std::size_t>(s)] * 1e9), name,
                 name + ".back");
  }
  return Topology(plan);
}

Flow gb(int from, int to, double size) { return {from, to, Bytes(size * 1e9)}; }

std::vector<double> ends(const MaxMinResult& r) {
  std::vector<double> out;
  for (const Seconds s : r.finish) {
    out.push_back(s.count());
  }
  return out;
}

void check_ends(const MaxMinResult& r, const std::vector<double>& expected) {
  REQUIRE(r.finish.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(r.finish[i].count() == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}

// How long each link that flows cross would take for their bytes at its full rate, in s, by its name.
std::map<std::string, double> busy(const Topology& t, const std::vector<Flow>& flows) {
  std::map<std::string, double> out;
  for (const Flow& flow : flows) {
    for (const int i : t.route(flow.from, flow.to)) {
      const TopologyLink& link = t.links()[static_cast<std::size_t>(i)];
      out[link.name] += (flow.bytes / link.rate).count();
    }
  }
  return out;
}

}  // namespace

TEST_CASE("two equal flows share a link, and end together in one event") {
  const MaxMinResult r = max_min(chain({10}), std::vector<Flow>{gb(0, 1, 5), gb(0, 1, 5)});
  check_ends(r, {1.0, 1.0});  // 10 GB at 10 GB/s
  CHECK(r.events == 1);
}

TEST_CASE("a flow that ends frees its share") {
  // 2 and 6 GB at 5 GB/s each until 0.4 s; then 4 GB are left of the second, at 10 GB/s: 0.8 s.
  const MaxMinResult r = max_min(chain({10}), std::vector<Flow>{gb(0, 1, 2), gb(0, 1, 6)});
  check_ends(r, {0.4, 0.8});
  CHECK(r.events == 2);
}

TEST_CASE("one long flow and two short ones: the textbook case") {
  // Links of 10 and 4 GB/s. The long flow crosses both, one short flow each. Filling: all rise to 2 GB/s, where the
  // second link is full; the first short flow goes on to 8. At 1 s the first (8 GB) ends; the long one stays at 2, held
  // by the second link. At 2 s the second short (4 GB) ends, and the long one has 6 - 4 = 2 GB left at 4 GB/s: 2.5 s.
  const MaxMinResult r = max_min(chain({10, 4}), std::vector<Flow>{gb(0, 2, 6), gb(0, 1, 8), gb(1, 2, 4)});
  check_ends(r, {2.5, 1.0, 2.0});
  CHECK(r.events == 3);
}

TEST_CASE("levels rise link by link") {
  // Four flows on a link of 8, one of which also crosses a link of 1: it gets 1, the others 7 / 3.
  const MaxMinResult r = max_min(chain({8, 1}), std::vector<Flow>{gb(0, 2, 1), gb(0, 1, 7), gb(0, 1, 7), gb(0, 1, 7)});
  // 7 / (7/3) = 3 s if the share held; the long flow ends at 1 s, leaving 7 - 7/3 = 14/3 GB at 8/3 GB/s: 1 + 1.75 s.
  check_ends(r, {1.0, 2.75, 2.75, 2.75});
}

TEST_CASE("two GPUs share their NIC") {
  const Topology t(plan_topology(small_cluster(2)));
  // GPUs 0 and 1 send 10 GB each through one NIC of 10 GB/s: 2 s. GPU 2 has the other NIC for itself: 1 s, but GPU 6's
  // NIC serves it alone too. Inside node 0, GPU 0 sends 10 GB over its own port at 100 GB/s: 0.1 s.
  const std::vector<Flow> flows{gb(0, 4, 10), gb(1, 5, 10), gb(2, 6, 10), gb(0, 3, 10), gb(3, 3, 50), gb(0, 1, 0)};
  check_ends(max_min(t, flows), {2.0, 2.0, 1.0, 0.1, 0.0, 0.0});
  CHECK(busy(t, flows)["node0.nic0.out"] == doctest::Approx(2.0));
  CHECK(busy(t, flows)["node1.nic0.in"] == doctest::Approx(2.0));
  CHECK(busy(t, flows)["gpu1.nic.out"] == 0);  // an unlimited link
}

TEST_CASE("an oversubscribed leaf holds back what leaves it, not what stays") {
  // Leaves of two nodes: 40 GB/s of NICs below, 10 GB/s up at 4:1. Nodes 0 and 1 are on leaf 0, nodes 2 and 3 on
  // leaf 1.
  const Topology t(
      plan_topology(small_cluster(4), {.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 2, .oversubscription = 4.0}));
  // GPUs 0 and 2 (NICs 0 and 1 of node 0) send to nodes 2 and 3: 5 GB/s each on the way up. GPU 4 shares no NIC with
  // them and stays on the leaf: 10 GB/s. GPU 1 shares GPU 0's NIC, where it finds the other 5 GB/s.
  const std::vector<Flow> flows{gb(0, 8, 10), gb(2, 12, 10), gb(4, 2, 10), gb(1, 6, 10)};
  check_ends(max_min(t, flows), {2.0, 2.0, 1.0, 2.0});
  // Busy for 2 s: the way up (20 GB at 10) and node 0's first NIC (20 GB at 10).
  CHECK(busy(t, flows)["leaf0.up"] == doctest::Approx(2.0));
  CHECK(busy(t, flows)["node0.nic0.out"] == doctest::Approx(2.0));
}

TEST_CASE("crossing rails costs the spine, keeping to them does not") {
  const Topology t(plan_topology(small_cluster(2), {.kind = FabricKind::kRailOptimised, .oversubscription = 4.0}));
  // A rail of two nodes: 20 GB/s below, 5 GB/s up.
  check_ends(max_min(t, std::vector<Flow>{gb(0, 4, 10), gb(2, 6, 10)}), {1.0, 1.0});
  const std::vector<Flow> crossed{gb(0, 6, 10), gb(2, 4, 10)};
  check_ends(max_min(t, crossed), {2.0, 2.0});
  CHECK(busy(t, crossed)["rail0.up"] == doctest::Approx(2.0));
}

TEST_CASE("nothing to send takes no time") {
  const Topology t(plan_topology(small_cluster(2)));
  const MaxMinResult r = max_min(t, std::vector<Flow>{gb(1, 1, 3), gb(0, 5, 0)});
  CHECK(r.time.count() == 0);
  CHECK(r.events == 0);
  CHECK(max_min(t, {}).time.count() == 0);
}

TEST_CASE("impossible flows are refused") {
  const Topology t(plan_topology(small_cluster(2)));
  const auto says = [&](Flow flow) {
    return std::string(test::error_of<InputError>([&] { max_min(t, std::vector<Flow>{flow}); }).what());
  };
  test::check_contains(says({0, 1, Bytes(-1)}), {"GPU 0 to GPU 1", "-1 bytes", "not negative"});
  test::check_contains(says({0, 1, Bytes(std::numeric_limits<double>::quiet_NaN())}), {"nan bytes", "finite"});
  test::check_contains(says({-1, 1, Bytes(1)}), {"GPU -1", "0 to 7"});
}

TEST_CASE("whatever the flows: no link over 100 %, never under the bound, the same to the bit in any order") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    RandomStream random(Seed{seed}, "flows");
    const FabricOptions options =
        seed % 2 == 0 ? FabricOptions{.kind = FabricKind::kLeafSpine, .nodes_per_leaf = 2, .oversubscription = 3.0}
                      : FabricOptions{.kind = FabricKind::kRailOptimised, .oversubscription = 2.0};
    const Topology t(plan_topology(small_cluster(5), options));
    std::vector<Flow> flows;
    for (int i = 0; i < 150; ++i) {
      flows.push_back(gb(static_cast<int>(random.below(20)), static_cast<int>(random.below(20)),
                         static_cast<double>(random.below(6))));
    }
    const MaxMinResult r = max_min(t, flows);
    for (const auto& [link, seconds] : busy(t, flows)) {
      CAPTURE(link);
      CHECK(seconds <= r.time.count() * (1 + 1e-9));
    }
    // Reversing the list changes no flow's end.
    const std::vector<Flow> reversed(flows.rbegin(), flows.rend());
    std::vector<double> back = ends(max_min(t, reversed));
    std::reverse(back.begin(), back.end());
    CHECK(back == ends(r));
  }
}
