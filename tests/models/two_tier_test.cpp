#include "models/network/two_tier.h"

#include <doctest/doctest.h>

#include "tests/models/profiles.h"

using namespace epsim;
using namespace epsim::literals;

namespace {

// Two nodes of four GPUs: 100 GB/s ports, two 10 GB/s NICs a node, so two GPUs share a NIC.
ClusterSpec two_nodes() {
  ClusterSpec cluster;
  cluster.node.name = "test";
  cluster.node.gpus = 4;
  cluster.node.intra_rate = 100_GBps;
  cluster.node.nics = 2;
  cluster.node.nic_rate = 10_GBps;
  cluster.nodes = 2;
  return cluster;
}

TwoTierNetwork network() { return {two_nodes(), {test::plain_link(10e-6, 0.5, 4), test::plain_link(100e-6, 0.8, 8)}}; }

TrafficMatrix quiet() {
  TrafficMatrix t;
  for (std::vector<double>* v : {&t.executed, &t.touched, &t.intra_out, &t.intra_in, &t.inter_out, &t.inter_in}) {
    v->assign(8, 0.0);
  }
  return t;
}

}  // namespace

TEST_CASE("the busiest NIC group sets the time across nodes") {
  TwoTierNetwork net = network();
  std::vector<double> carried(net.links().size(), 0.0);
  TrafficMatrix t = quiet();
  // GPUs 0 and 1 share a NIC: 600 + 400 rows of 1 MB = 1 GB at 10 GB/s = 0.1 s on the wire, / 0.8 + 100 us.
  t.inter_out[0] = 600;
  t.inter_out[1] = 400;
  t.inter_in[4] = 500;
  t.inter_in[6] = 500;
  const ExchangePrice p = net.all_to_all(t, Bytes(1e6), Direction::kDispatch, carried);
  CHECK(p.wire.count() == doctest::Approx(0.1));
  CHECK(p.price.time.count() == doctest::Approx(0.1 / 0.8 + 100e-6));
  // Four NIC groups: 1000, 0, 500, 500 MB busiest way; the mean is half of the busiest.
  CHECK(p.straggler.count() == doctest::Approx(p.price.time.count() / 2));
  // Links: 8 ports out and in, then the groups out and in.
  CHECK(carried[16] == doctest::Approx(1e9));
  CHECK(carried[21] == doctest::Approx(5e8));
  // Combine carries the same rows the other way.
  const ExchangePrice back = net.all_to_all(t, Bytes(1e6), Direction::kCombine, carried);
  CHECK(back.price.time == p.price.time);
  CHECK(carried[17] == doctest::Approx(1e9));
}

TEST_CASE("the slower tier is the price") {
  TwoTierNetwork net = network();
  std::vector<double> carried(net.links().size(), 0.0);
  TrafficMatrix t = quiet();
  t.intra_out[3] = 2000;  // 2 GB at 100 GB/s = 0.02 s, / 0.5 + 10 us = 40.01 ms
  t.intra_in[2] = 2000;
  t.inter_out[0] = 100;  // 0.1 GB at 10 GB/s = 0.01 s, / 0.8 + 0.1 ms = 12.6 ms
  t.inter_in[4] = 100;
  const ExchangePrice p = net.all_to_all(t, Bytes(1e6), Direction::kDispatch, carried);
  CHECK(p.price.time.count() == doctest::Approx(0.02 / 0.5 + 10e-6));
}

TEST_CASE("an exchange of nothing still takes the latency of all nodes") {
  TwoTierNetwork net = network();
  std::vector<double> carried(net.links().size(), 0.0);
  const ExchangePrice p = net.all_to_all(quiet(), Bytes(1e6), Direction::kDispatch, carried);
  CHECK(p.price.time.count() == doctest::Approx(100e-6));
  CHECK(p.straggler.count() == 0.0);
  CHECK(net.latency().time.count() == doctest::Approx(100e-6));
}

TEST_CASE("more NICs than GPUs: each GPU owns several") {
  ClusterSpec cluster = two_nodes();
  cluster.node.nics = 16;
  TwoTierNetwork net(cluster, {test::plain_link(10e-6, 0.5, 4), test::plain_link(100e-6, 0.8, 8)});
  REQUIRE(net.links().size() == 16 + 2 * 8);
  CHECK(net.links()[16].rate.count() == doctest::Approx(40e9));
  CHECK(net.links()[16].name == "node0.nic0.out");
}

TEST_CASE("a single node has no NICs to wait for") {
  ClusterSpec cluster = two_nodes();
  cluster.nodes = 1;
  TwoTierNetwork net(cluster, {test::plain_link(10e-6, 0.5, 4), {}});
  std::vector<double> carried(net.links().size(), 0.0);
  TrafficMatrix t;
  for (std::vector<double>* v : {&t.executed, &t.touched, &t.intra_out, &t.intra_in, &t.inter_out, &t.inter_in}) {
    v->assign(4, 0.0);
  }
  t.intra_out[1] = t.intra_in[0] = 1000;
  CHECK(net.all_to_all(t, Bytes(1e6), Direction::kDispatch, carried).price.time.count() ==
        doctest::Approx(0.01 / 0.5 + 10e-6));
  CHECK(net.latency().time.count() == doctest::Approx(10e-6));
}

TEST_CASE("the bottleneck is found among any number of links") {
  ClusterSpec cluster = two_nodes();
  cluster.nodes = 35;  // 140 GPUs, 70 NIC groups: no whole number of vectors, nor of the groups taken at a time
  const TwoTierNetwork net(cluster, {test::plain_link(10e-6, 0.5, 4), test::plain_link(100e-6, 0.8, 140)});
  for (const std::size_t group : {std::size_t{0}, std::size_t{63}, std::size_t{64}, std::size_t{69}}) {
    TrafficMatrix t;
    for (std::vector<double>* v : {&t.executed, &t.touched, &t.intra_out, &t.intra_in, &t.inter_out, &t.inter_in}) {
      v->assign(140, 0.0);
    }
    std::fill(t.inter_out.begin(), t.inter_out.end(), 10.0);
    std::fill(t.inter_in.begin(), t.inter_in.end(), 10.0);
    t.inter_in[2 * group + 1] = 90;  // 100 rows into that group, 20 into every other
    std::vector<double> carried(net.links().size(), 0.0);
    const ExchangePrice p = net.all_to_all(t, Bytes(1e6), Direction::kDispatch, carried);
    CHECK(p.bottleneck == static_cast<int>(2 * 140 + 2 * group + 1));
    CHECK(p.wire.count() == doctest::Approx(100e6 / 10e9));
    // Mean of the groups' busier directions: (69 x 20 + 100) / 70 of 100.
    CHECK(p.straggler.count() == doctest::Approx(p.price.time.count() * (1 - (69 * 20 + 100) / 70.0 / 100)));
    CHECK(carried[2 * 140 + 2 * group + 1] == doctest::Approx(100e6));
  }
}
