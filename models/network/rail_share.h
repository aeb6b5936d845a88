// FairShare where messages are relayed (Pxn): each rail is a network of its own, with one NIC a node.
//
//   Models : as FairShare. The NIC of a node shares its rate out among the GPUs of the rail in other nodes; what has come
//            to one of these NICs by a time is known, and it needs that time plus what is left then.
//   Ignores: as FairShare; times but those at which flows of the last sender of a rail end, and of these all but the
//            latest kTimes. GPUs of a node that send to one GPU count as one flow: they end together where they have as
//            many tokens each.
//   Against: max_min over the same relays: on 8 nodes within 3 % then; within 9 % on 4 nodes, whose NICs have three flows
//            each, or where tokens differ 8 to 1 inside nodes (tests/models/pxn_test.cpp).
#pragma once

#include <cstddef>
#include <vector>

#include "models/network/fair_share.h"
#include "models/network/falling_order.h"
#include "models/network/pxn.h"

namespace epsim {

class RailShare {
 public:
  RailShare(const ClusterShape& shape, int gpus_per_nic);

  // In the direction in which the rows travel, otherwise as FairShare::longest: `max_rows` of the busiest NIC. `ports`:
  // as Pxn::ports gives them. O(senders that send for as long as the last kTimes flows do x GPUs that get rows).
  FairShare::Wait longest(const TrafficMatrix& traffic, Direction direction, const PortRows& ports, double max_rows);

 private:
  // A NIC that sends: its rows to each GPU, its flows by falling size, and when all are served up to the size of each.
  struct Sender {
    const double* to = nullptr;  // in rows_
    double rows = 0;
    std::vector<double> sizes, ends_at;
  };
  bool anybody_idles(const std::vector<double>& sent, std::size_t rail) const;
  void find_rails(const PortRows& ports);
  void sort_receivers(std::size_t rail, const std::vector<double>& received);
  bool counts(const std::vector<double>& sent, std::size_t node, std::size_t rail) const;
  void choose(const TrafficMatrix& traffic, Direction direction, const std::vector<double>& sent);
  void gather(const std::vector<double>& sent, std::size_t rail);
  void fill(Sender& sender, std::size_t rail) const;
  const Sender& last() const;
  double earliest_time() const;
  static void levels_at(const Sender& sender, const double* times, std::size_t n, double* levels);
  void wait_on(std::size_t rail, double max_rows, FairShare::Wait& out);

  Pxn pxn_;
  std::size_t nodes_, per_nic_, rails_;
  std::vector<std::size_t> idle_rails_;  // scratch from here on: rails where a receiver may idle
  std::vector<double> after_;            // [rail] senders of fewer rows do not count
  FallingOrder order_;
  std::vector<double> received_;  // of a rail's GPUs
  std::vector<int> receivers_;    // [rail][nodes x GPUs of a NIC] GPUs, those that get most first
  std::vector<int> senders_at_;   // nodes that count on any of them
  std::vector<double> rows_;      // [of senders_at_][GPU]
  std::vector<Sender> senders_;   // of one rail: the first active_ of them
  std::size_t active_ = 0;
  std::vector<double> times_, levels_, until_;  // [time], a sender's [time], [node][time]
};

}  // namespace epsim
