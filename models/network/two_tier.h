// Time of an exchange on two tiers of links: GPU ports inside a node, NICs between nodes.
//
//   Models : any source x destination matrix as the slower tier's busiest resource: base latency plus bytes / (rate x
//            measured efficiency at that wire time). NICs may be shared by GPUs, or a GPU may have several. With
//            fair_share, the time until the last hot receiver has its rows, where that is longer (FairShare, or RailShare
//            where NICs relay); traffic that comes pair by pair, such as weights that move, has its busiest resource
//            alone where NICs do not. With `pxn`, rows between nodes leave by the receiver's rail (Pxn).
//   Ignores: contention between the two tiers, message counts; with two_tier, that flows wait for each other.
//            Fabrics with anything else to wait for (oversubscribed leaves and rails, PCIe ports that carry both
//            tiers) are FabricNetwork's.
//   Source : LinkProfile curves (models/hardware/links).
//   Valid  : inside the measured wire times and GPU counts; outside, the price is marked extrapolated.
#pragma once

#include <memory>
#include <vector>

#include "models/network/fair_share.h"
#include "models/network/network.h"
#include "models/network/rail_share.h"

namespace epsim {

class TwoTierNetwork final : public Network {
 public:
  // links(): per GPU its port out and in, then per NIC group out and in.
  // Of `options`: the transport, fair_share or not, and pxn.
  TwoTierNetwork(const ClusterSpec& cluster, NetworkProfile profile, const NetworkOptions& options = {});

  ExchangePrice all_to_all(const TrafficMatrix& traffic, Bytes row, Direction direction,
                           std::vector<double>& link_bytes) const override;
  // One pass over the links where nothing is relayed: a combine's busiest resource is its dispatch's.
  LayerExchange dispatch_and_combine(const TrafficMatrix& traffic, Bytes dispatch_row, Bytes combine_row,
                                     std::vector<double>& link_bytes) const override;
  void count(const TrafficMatrix& traffic, Bytes row, std::vector<double>& link_bytes) const override;

 private:
  struct Tier;
  void share_fairly(const TrafficMatrix& traffic, Direction direction, Tier& nic) const;
  ExchangePrice price_of(const Tier& port, const Tier& nic, double row, Direction direction) const;
  const PortRows& rows_of(const TrafficMatrix& traffic, Direction direction) const;
  PortTiers port_tiers(const TrafficMatrix& traffic, Bytes row, Direction direction) const override;
  void leave_by_relays(const std::vector<double>& sent, PortTiers& tiers) const;

  std::size_t nic_groups_ = 0;       // of the cluster
  std::unique_ptr<FairShare> fair_;  // neither with two_tier, nor where no NIC is busy
  std::unique_ptr<RailShare> rail_fair_;
  std::unique_ptr<PortRows> rows_;  // of rows_of(): one thread at a time
};

}  // namespace epsim
