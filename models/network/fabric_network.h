// Time of an exchange over any topology: every link of the graph is a resource, and routes say who uses it.
//
//   Models : with two_tier, the busiest link inside nodes and the busiest between them, each bytes / rate, whatever the
//            fabric: oversubscribed leaves and rails, PCIe ports that carry both tiers, links between host bridges.
//            With max_min, the time until the last flow inside a node, and between nodes, has ended. Either is turned
//            into a price by the curve of its tier, as in TwoTierNetwork, which it equals on a plain fabric.
//            With `pxn`, routes between nodes go by relays, and a flow has one rate all along its route.
//            A GPU's own bytes out take what the links of the first half of their routes are busy, those in what the
//            second half is (the middle link counts for both, a relay's links for out), with max_min until its last flow
//            ends. All-gathers over all GPUs, rings through the nodes, take what the busiest link of each tier does.
//   Ignores: adaptive routing, packets, what a curve measured on one fabric says about another: an oversubscribed spine
//            is priced with the NICs' efficiency.
//   Cost   : O(GPUs squared x links of a route) an exchange; max_min as its own header says.
#pragma once

#include <vector>

#include "models/network/max_min.h"
#include "models/network/network.h"
#include "models/network/topology.h"

namespace epsim {

class FabricNetwork final : public Network {
 public:
  // links(): those of the topology, in its order.
  FabricNetwork(const ClusterSpec& cluster, NetworkProfile profile, const NetworkOptions& options);

  ExchangePrice all_to_all(const TrafficMatrix& traffic, Bytes row, Direction direction,
                           std::vector<double>& link_bytes) const override;
  void count(const TrafficMatrix& traffic, Bytes row, std::vector<double>& link_bytes) const override;

 private:
  PortTiers port_tiers(const TrafficMatrix& traffic, Bytes row, Direction direction) const override;
  Tiers gather_floor(Bytes bytes) const override {
    return {gather_.inside * bytes.count(), gather_.between * bytes.count()};
  }
  void price_gather();
  struct TimedFlows {
    std::vector<Flow> flows;
    std::vector<Seconds> finish;  // [flow]
  };
  TimedFlows time_flows(const std::vector<double>& pairs, Bytes row, bool dispatch) const;
  // Links from and to the same kinds of vertices at the same rate are one class: ports out, NICs in, leaves up, ...
  struct LinkPlace {
    bool between = false;  // the link belongs to the tier between nodes
    int link_class = 0;
    std::size_t back = 0;  // the link the other way; itself where there is none
  };
  void place_links();
  void pair_links();
  void store_routes(const Topology& topology);
  // [link] bytes of the exchange.
  std::vector<double> carried_by(const std::vector<double>& pairs, Bytes row, bool dispatch) const;
  Tiers flow_times(const std::vector<double>& pairs, Bytes row, bool dispatch) const;
  double mean_share(const std::vector<double>& carried, int bottleneck) const;

  Topology topology_;
  NetworkModel model_;
  std::vector<LinkPlace> places_;    // [link]
  std::vector<std::size_t> first_;   // [from * GPUs + to] where its route begins; one more at the end
  std::vector<std::int32_t> route_;  // links, route by route
  Tiers gather_{};                   // of a buffer of one byte
};

}  // namespace epsim
