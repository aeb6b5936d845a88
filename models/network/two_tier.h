// Time of an exchange on two tiers of links: GPU ports inside a node, NICs between nodes.
//
//   Models : any source x destination matrix as the slower tier's busiest resource: base latency plus bytes / (rate x
//            measured efficiency at that wire time). NICs may be shared by GPUs, or a GPU may have several. With
//            `fair`, the time until the last hot receiver has its rows, where that is longer (FairShare); traffic
//            that comes pair by pair, such as weights that move, has its busiest resource alone.
//   Ignores: contention between the two tiers, message counts; without `fair`, that flows wait for each other.
//            Fabrics with anything else to wait for (oversubscribed leaves and rails, PCIe ports that carry both
//            tiers) are FabricNetwork's.
//   Source : LinkProfile curves (models/hardware/links).
//   Valid  : inside the measured wire times and GPU counts; outside, the price is marked extrapolated.
#pragma once

#include <memory>
#include <vector>

#include "models/network/fair_share.h"
#include "models/network/network.h"

namespace epsim {

class TwoTierNetwork final : public Network {
 public:
  // links(): per GPU its port out and in, then per NIC group out and in.
  TwoTierNetwork(const ClusterSpec& cluster, NetworkProfile profile, Transport transport = Transport::kNcclP2p,
                 bool fair = false);

  ExchangePrice all_to_all(const TrafficMatrix& traffic, Bytes row, Direction direction,
                           std::vector<double>& link_bytes) const override;
  // One pass over the links: a combine's busiest resource is its dispatch's.
  LayerExchange dispatch_and_combine(const TrafficMatrix& traffic, Bytes dispatch_row, Bytes combine_row,
                                     std::vector<double>& link_bytes) const override;
  void count(const TrafficMatrix& traffic, Bytes row, std::vector<double>& link_bytes) const override;

 private:
  struct Tier;
  void share_fairly(const TrafficMatrix& traffic, Tier& nic) const;
  ExchangePrice price_of(const Tier& port, const Tier& nic, double row, Direction direction) const;
  PortTiers port_tiers(const TrafficMatrix& traffic, Bytes row, Direction direction) const override;

  std::size_t nic_groups_ = 0;  // of the cluster
  std::unique_ptr<FairShare> fair_;
};

}  // namespace epsim
