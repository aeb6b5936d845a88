// Moving experts' weights, worked out by hand: bytes over rate, to the picosecond.
#include "sim/step/migration_cost.h"

#include <doctest/doctest.h>

#include <numeric>

using namespace epsim;

namespace {

// Links without latency that reach the data sheet's rate.
LinkProfile ideal(int gpus) {
  LinkProfile out;
  out.name = "ideal";
  CollectiveCurve curve;
  curve.gpus = gpus;
  curve.wire_share = 1;
  curve.points = {{}, {Bytes(1), Seconds(1), Seconds(1)}};
  out.curves = {curve};
  return out;
}

// Two nodes of two GPUs: ports of 100 GB/s, one NIC of 10 GB/s a node.
ClusterSpec cluster() {
  ClusterSpec out;
  out.nodes = 2;
  out.node.name = "hand";
  out.node.gpus = 2;
  out.node.intra_rate = 100_GBps;
  out.node.nics = 1;
  out.node.nic_rate = 10_GBps;
  return out;
}

// An expert of 3 x 1000 x 1000 weights in bf16: 6 MB.
MoeSpec model() {
  MoeSpec out;
  out.hidden = out.moe_intermediate = 1000;
  return out;
}

PlacementPlan plan_of(std::vector<std::vector<int>> layers) {
  PlacementPlan out{.policy = "hand", .experts = 4, .gpus = 4, .layers = {}};
  for (std::vector<int>& slots : layers) {
    out.layers.push_back(uniform_layer(std::move(slots), 4));
  }
  return out;
}

MigrationCost moves(double efficiency = 1, Seconds layer_time = {}) {
  return {model(), cluster(), 1, {ideal(2), ideal(4)}, {}, efficiency, layer_time};
}

constexpr Ticks kNs{1000};

}  // namespace

TEST_CASE("weights over ports and NICs take bytes over rate, layer by layer") {
  const PlacementPlan before = plan_of({{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}});
  // Layer 0: GPUs 0 and 1 swap inside their node. Layer 1: GPUs 0 and 1 swap with 2 and 3 across nodes. Layer 2 stays.
  const PlacementPlan after = plan_of({{1, 0, 2, 3}, {2, 3, 0, 1}, {0, 1, 2, 3}});
  const std::vector<LayerMove> found = moves().plan(after, before, {});
  REQUIRE(found.size() == 3);
  CHECK(found[0].copies.size() == 2);
  CHECK(found[0].price.time == 60'000 * kNs);  // 6 MB / 100 GB/s = 60 us, both ways at once
  CHECK(found[1].copies.size() == 4);
  CHECK(found[1].price.time == 1'200'000 * kNs);  // two experts through each NIC: 12 MB / 10 GB/s = 1.2 ms
  CHECK(found[2].copies.empty());
  CHECK(found[2].price.time == Ticks{});
  // The hosts' own time comes on top of each layer that moves, and of no other.
  const std::vector<LayerMove> slow_hosts = moves(1, Seconds(2e-3)).plan(after, before, {});
  CHECK(slow_hosts[0].price.time == 2'060'000 * kNs);
  CHECK(slow_hosts[1].price.time == 3'200'000 * kNs);
  CHECK(slow_hosts[2].price.time == Ticks{});
  // Half the pace, and a node's links at half their rate: twice as long each.
  CHECK(moves(0.5).plan(after, before, {})[1].price.time == 2'400'000 * kNs);
  CHECK(moves().plan(after, before, {.gpu_speed = {}, .link_speed = {1, 1, 0.5, 0.5}, .nic_speed = {}})[1].price.time ==
        2'400'000 * kNs);
  CHECK(moves().plan(after, before, {.gpu_speed = {}, .link_speed = {}, .nic_speed = {1, 1, 0.5, 0.5}})[1].price.time ==
        2'400'000 * kNs);
  CHECK(moves().plan(after, before, {.gpu_speed = {}, .link_speed = {0.25, 1, 1, 1}, .nic_speed = {}})[0].price.time ==
        240'000 * kNs);
}

TEST_CASE("EP ranks of two GPUs: each sends its half of an expert to the GPU of its place") {
  PlacementPlan before{.policy = "hand", .experts = 4, .gpus = 2, .layers = {uniform_layer({0, 1, 2, 3}, 2)}};
  PlacementPlan after = before;
  after.layers[0] = uniform_layer({2, 1, 0, 3}, 2);
  const std::vector<LayerMove> found =
      MigrationCost(model(), cluster(), 2, {ideal(2), ideal(4)}, {}).plan(after, before, {});
  REQUIRE(found[0].copies.size() == 4);
  for (const CopyMove& copy : found[0].copies) {
    CHECK(copy.from_gpu % 2 == copy.to_gpu % 2);
  }
  CHECK(found[0].price.time == 600'000 * kNs);  // two halves of 3 MB through each NIC: 6 MB / 10 GB/s
}

TEST_CASE("weights come from the node itself where it has the expert") {
  // Expert 0 is on GPUs 0 and 2; GPU 3 takes it over from its neighbour 2, not through the NIC.
  PlacementPlan before{
      .policy = "hand", .experts = 4, .gpus = 4, .layers = {uniform_layer({0, 1, 2, 3, 0, 2, 3, 1}, 4)}};
  PlacementPlan after = before;
  after.layers[0] = uniform_layer({0, 1, 2, 3, 0, 2, 3, 0}, 4);
  const std::vector<LayerMove> found = moves().plan(after, before, {});
  REQUIRE(found[0].copies.size() == 1);
  CHECK(found[0].copies[0].from_gpu == 2);
  CHECK(found[0].price.time == 60'000 * kNs);
  std::vector<double> bytes(4 * 2 + 2 * 2);
  moves().count(found[0], bytes);
  CHECK(bytes[4] == 6e6);  // gpu2.port.out
  CHECK(bytes[7] == 6e6);  // gpu3.port.in
  CHECK(std::accumulate(bytes.begin(), bytes.end(), 0.0) == 12e6);
}
