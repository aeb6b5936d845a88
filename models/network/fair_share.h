// How long an exchange between nodes takes when every sender shares its NIC out fairly among its receivers: longer than
// any NIC is busy where a hot receiver idles at first, and has much left when the senders' other flows have ended.
//
//   Models : flows from each NIC group to every GPU of other nodes as fluids. While a sender serves its flows alike,
//            what has come to a receiving NIC by a time t is known in closed form, and it needs t plus what is left
//            then; the exchange, the longest of this over times and receivers: the bound on a queue that is never
//            empty after t. A combine takes as long as its dispatch: the same flows over the same NICs, turned round.
//   Ignores: that a full receiver leaves its senders' rates to their other flows, which makes those end earlier;
//            receivers of all but the hottest GPUs; and times but those at which flows of the last sender end. As many
//            senders as fill a receiver at once leave nobody idle: the busiest link is all that they wait for.
//   Against: max_min (max_min.h), which it follows within 2 %, in microseconds for its millisecond
//            (tests/models/fair_share_test.cpp).
//   Source : R. L. Cruz, A calculus for network delay, IEEE Trans. Information Theory 37(1), 1991: a queue's backlog.
#pragma once

#include <cstddef>
#include <vector>

#include "models/network/falling_order.h"
#include "models/network/traffic_matrix.h"
#include "sim/domain/parallelism.h"

namespace epsim {

class FairShare {
 public:
  FairShare(const ClusterShape& shape, int gpus_per_group);

  struct Wait {
    double rows = 0;    // through a NIC at its full rate; 0 when nobody waits longer than a link is busy
    int receiver = -1;  // the NIC group that takes so long
  };
  // `max_rows`: of the busiest NIC, one direction; a wait that does not exceed it is not reported. Uses scratch of its
  // own: one thread at a time.
  Wait longest(const TrafficMatrix& traffic, double max_rows);

 private:
  // NIC groups of one node, all alike, and what they send.
  struct Sender {
    std::size_t row = 0, node = 0;  // whose tokens (in rows_), where
    double tokens = 0;              // of one group
    double groups = 0;
    double end = 0;               // rows of one group: when its last flow ends
    std::vector<double> ends_at;  // [level] when its flows are served up to that level
    std::vector<double> per_row;  // [level] how far up a row brings its flows above that level
  };
  struct HotGpu {
    double level = 0;  // rows a token sends there
    std::size_t gpu = 0, node = 0;
  };

  // The GPUs of a TrafficMatrix::Row.
  struct Row {
    std::size_t first = 0, last = 0;
    std::vector<double> reach;    // [GPU]
    std::vector<HotGpu> hottest;  // falling as far as levels_
  };

  bool anybody_idles(const TrafficMatrix& traffic);
  void find_senders(const TrafficMatrix& traffic);
  void copy_rows(const TrafficMatrix& traffic);
  void sort_hottest(Row& row);
  void walk(Sender& sender) const;
  double left_at(std::size_t receiver, double time);
  bool worth_trying(std::size_t hot);
  struct Levels {
    std::size_t first, end, stride, patience;
  };
  struct Worst {
    std::size_t level = 0;
    double rows = 0;
  };
  Worst worst_of(std::size_t receiver, Levels levels);
  double waits_for(std::size_t receiver);

  std::size_t gpus_, per_node_, per_group_;
  std::vector<Sender> senders_;           // scratch from here on; the first `active_` are in use
  std::size_t active_ = 0, last_ = 0;     // senders, and the last of them to end
  std::size_t filling_ = 0, levels_ = 0;  // NIC groups that send for about as long as that one; levels that count
  double latest_ = 0;
  std::vector<double> sent_;  // [NIC group]
  bool together_ = false;     // whether senders end at about one time
  std::vector<Row> rows_;     // the first `used_` are in use
  std::size_t used_ = 0;
  FallingOrder order_;
  std::vector<std::size_t> tried_, heard_, at_;
  double covered_ = 0;  // what the coldest GPU beside a tried hot one gets
};

}  // namespace epsim
