// NCCL's PXN: a message to another node leaves by the sender's NIC of the receiver's index, not by the sender's own.
//
//   Models : rows between nodes go over NVLink to the GPU of the sender's node that serves that NIC (of several that
//            share it, the first), and from there to the receiver's own NIC. So they stay on one rail, and a node's rows
//            for one NIC leave by one NIC, whoever sends them. A combine is such a send too: what relays is the NIC of
//            the index of the GPU that gets the row back.
//   Ignores: what the relay's notification takes, and that messages of a node to one GPU are received together
//            (NCCL_NET_SHARED_COMMS): both are in the measured curves, of an even exchange; hosts inside a rack that
//            NVLink spans.
//   Source : NCCL src/graph/search.cc, ncclTopoGetNetDev: NCCL_P2P_PXN_LEVEL is 2 (always) since 2.12, where NVLink joins
//            the two GPUs; NVIDIA, "Doubling all2all Performance with NCCL 2.12" (2022). AWS's plug-in leaves it on
//            (aws-ofi-nccl doc/multi-recv.md), and the curves of models/hardware/links were measured with it.
#pragma once

#include <span>
#include <vector>

#include "models/network/traffic_matrix.h"
#include "sim/domain/parallelism.h"
#include "sim/domain/step.h"

namespace epsim {

// [GPU] Rows as they travel in one direction: over ports inside nodes, and through NICs.
struct PortRows {
  std::vector<double> intra_out, intra_in, inter_out, inter_in;
};

class Pxn {
 public:
  Pxn(const ClusterShape& shape, int gpus_per_nic) : shape_(shape), per_nic_(gpus_per_nic) {}

  // The GPU whose NIC a row from one GPU to another leaves by; the sender itself inside a node.
  int relay(int from, int to) const;
  // What `traffic` puts on ports and NICs, hops to relays included.
  void ports(const TrafficMatrix& traffic, Direction direction, PortRows& out) const;
  // [of `nodes`, which send][receiving GPU] rows between nodes.
  void node_rows(const TrafficMatrix& traffic, Direction direction, const std::vector<int>& nodes,
                 std::vector<double>& out) const;
  int rails_per_node() const { return shape_.gpus_per_node / per_nic_; }
  // As TrafficMatrix::slowed, in one direction: a pair goes at the pace of the slowest of its ends and its relay.
  TrafficMatrix slowed(const TrafficMatrix& traffic, Direction direction, std::span<const double> link_speed,
                       std::span<const double> nic_speed) const;

  // One side of rows sent[from] x reach[to]: `of` [GPU], of which [first, last) count.
  struct Factor {
    const double* of = nullptr;
    int first = 0, last = 0;
    double within(int begin, int gpus) const;  // the sum of those of GPUs [begin, begin + gpus)
  };

 private:
  // The place in its node of the GPU that relays what goes to `to`.
  int place_of_relay(int to) const {
    const int index = to % shape_.gpus_per_node;
    return index - index % per_nic_;
  }
  void relay_products(const Factor& sent, const Factor& reach, std::vector<double>& sums, PortRows& out) const;
  void relay_pairs(const TrafficMatrix& traffic, Direction direction, PortRows& out) const;

  ClusterShape shape_;
  int per_nic_;
};

}  // namespace epsim
