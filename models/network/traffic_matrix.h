// Who sends how many rows to whom in one MoE layer's dispatch, and what that puts on ports and NICs: the one form in
// which network models get traffic. Combine carries the same rows the other way.
//
// Rows come by source, as a product of where tokens lie and what each of them sends, or pair by pair. Sums by port and
// NIC are always there, since most models need no more; reach() and pairs() multiply out what they do not tell.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "models/network/source_lanes.h"
#include "sim/domain/parallelism.h"

namespace epsim {

class TrafficMatrix {
 public:
  // GPUs [first, last) whose tokens see one row of lanes.
  struct Row {
    int first = 0, last = 0;
    const SourceLanes::Source* source = nullptr;  // one that sees that row
    // [node] The chance that a token needs it at all, where one row goes to a node: it lands on the GPU of the sender's
    // index and is fanned out from there. Empty: every GPU is sent its own rows.
    std::vector<double> hit{};
  };
  // GPUs whose tokens have one mix of experts: such a token sends `reach` rows to the GPU of each lane that it sees.
  struct Mix {
    std::shared_ptr<const SourceLanes> lanes{};
    std::vector<Row> rows{};                   // by growing GPU
    std::vector<double> reach{};               // [lane]
    std::vector<double> near{}, far{}, own{};  // [lane] tokens that see it: of its node, of others; its GPU's of `near`
  };

  // No rows and no mixes; `tokens` [GPU] for mixes to come.
  void clear(const ClusterShape& shape, std::span<const double> tokens = {});
  // `rows` from one GPU to another; those that stay on their GPU are none.
  void add(int from, int to, double rows);
  // The mix of the tokens of GPUs [first, last), which no other mix has: to count() when its reach, and its rows' hits
  // where there are any, are filled in. Not with add().
  Mix& new_mix(std::shared_ptr<const SourceLanes> lanes, int first, int last);
  void count(const Mix& mix);
  // The traffic that takes links at full rate as long as this one takes links at these shares of it; empty: full rate.
  // A pair goes at the pace of its slower end.
  TrafficMatrix slowed(std::span<const double> link_speed, std::span<const double> nic_speed) const;

  std::span<const Mix> mixes() const { return {mixes_.data(), used_}; }
  // [GPU] Rows that a token of the row's GPUs sends there.
  static void reach(const Mix& mix, const Row& row, std::vector<double>& out);
  std::vector<double> pairs() const;  // [from][to] rows, both hops of those that are fanned out

  std::vector<double> tokens;               // [GPU] of the mixes
  std::vector<double> intra_out, intra_in;  // [GPU] rows over its port inside the node
  std::vector<double> inter_out, inter_in;  // [GPU] rows through its NIC
  // What arrives as work of experts.
  std::vector<double> executed;  // [GPU] routed assignments computed there (grouped-GEMM rows)
  std::vector<double> touched;   // [GPU] expected number of physical experts with at least one row

 private:
  void place(int first, int last, Mix& mix);
  void place(const SourceLanes::Source& source, int first, int last, Mix& mix);
  void send_per_gpu(const Mix& mix);
  void arrive_per_gpu(const Mix& mix);
  void count_per_node(const Mix& mix, const Row& row);
  void slow_down(std::span<const double> speed, bool nics_only);

  ClusterShape shape_;
  std::vector<Mix> mixes_;  // the first `used_`
  std::size_t used_ = 0;
  std::vector<double> placed_;  // [GPU] tokens that all mixes_ with lanes were placed with
  std::vector<double> pairs_;   // rows added pair by pair; empty: all are in mixes_
  // Scratch.
  std::vector<double> row_, gain_;                // [GPU]; [lane] its reach less that of its GPU's common lane
  std::vector<double> node_tokens_, node_reach_;  // [node] sums of the mix or row that is counted
  std::vector<double> landed_, remote_;  // [index in the node] tokens that fan out from there; those of other nodes
};

}  // namespace epsim
