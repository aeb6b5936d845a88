// Time of collectives on two tiers of links: GPU ports inside a node, NICs between nodes.
//
//   Models : an all-to-all with any source x destination matrix as the slower tier's busiest resource: base latency
//            plus bytes / (rate x measured efficiency at that wire time). NICs may be shared by GPUs, or a GPU may have
//            several. Tensor-parallel collectives inside a node.
//   Ignores: contention between the two tiers, switch oversubscription (max_min models it), incast, message counts.
//   Source : LinkProfile curves (models/hardware/links).
//   Valid  : inside the measured wire times and GPU counts; outside, the price is marked extrapolated.
#pragma once

#include <string>
#include <vector>

#include "models/hardware_profile.h"
#include "models/network/traffic.h"
#include "sim/domain/cluster_spec.h"

namespace epsim {

enum class Direction { kDispatch, kCombine };
enum class PortSide { kIn, kOut };

// An all-to-all's price, its lower bound, and what the GPUs wait on average for its busiest resource.
struct ExchangePrice {
  Price price;
  Seconds wire{};  // busiest resource's bytes / data-sheet rate
  Seconds straggler{};
};

class TwoTierNetwork {
 public:
  TwoTierNetwork(const ClusterSpec& cluster, NetworkProfile profile);

  // One layer's exchange. Adds what each resource carried to `link_bytes`, in the order of links().
  ExchangePrice all_to_all(const LayerTraffic& traffic, Bytes row, Direction direction,
                           std::vector<double>& link_bytes) const;
  // What one GPU's own bytes of such an exchange take through its ports: the slower of its port inside the node and its
  // NIC group, which carries its neighbours' bytes too. Nothing to carry takes no time.
  Price port_price(const LayerTraffic& traffic, Bytes row, Direction direction, int gpu, PortSide side) const;
  // Busiest resource of one GPU for such an exchange at the data sheet's rate, and what each link carries of it.
  Seconds port_wire(const LayerTraffic& traffic, Bytes row, int gpu, PortSide side) const;
  void count(const LayerTraffic& traffic, Bytes row, std::vector<double>& link_bytes) const;
  // A collective over all GPUs of the cluster, on a buffer of `bytes` as in within_node(): the slower of what a GPU's
  // port carries inside the node and what the NICs of a node carry between nodes. Nodes send every byte to a node once.
  Price over_all(CollectiveKind kind, Bytes bytes) const;
  // Base latency of a collective over all GPUs that carries next to nothing (the exchange of counts).
  Price latency() const;
  // A collective over the `gpus` of one tensor-parallel group inside a node, on a buffer of `bytes`.
  Price within_node(CollectiveKind kind, int gpus, Bytes bytes) const;

  // Names and rates of the resources: per GPU its port out and in, per NIC group out and in.
  struct Link {
    std::string name;
    BytesPerSecond rate{};
  };
  const std::vector<Link>& links() const { return links_; }

 private:
  struct Tier {
    double busiest = 0, sum = 0;
    void add(double bytes) {
      sum += bytes;
      busiest = bytes > busiest ? bytes : busiest;
    }
  };

  static ExchangePrice price_tier(const LinkProfile& link, int gpus, const Tier& tier, double resources,
                                  BytesPerSecond rate);

  ClusterSpec cluster_;
  NetworkProfile profile_;
  int group_gpus_;             // GPUs that share a NIC group
  BytesPerSecond group_rate_;  // of a NIC group, each direction
  int groups_;                 // in the cluster; 0 = no NICs
  std::vector<Link> links_;
};

}  // namespace epsim
