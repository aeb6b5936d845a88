// Who sends how many rows to whom in one MoE layer's dispatch, and what that puts on ports and NICs: the one form in
// which network models get traffic. Combine carries the same rows the other way.
//
// Rows come by source, as a product of where tokens lie and what each of them sends, or pair by pair. Sums by port and
// NIC are always there, since most models need no more; pairs() multiplies out what they do not tell.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/domain/parallelism.h"

namespace epsim {

class TrafficMatrix {
 public:
  // Tokens of one mix of experts: tokens[a] x reach[b] rows go from GPU a to GPU b.
  struct Source {
    std::vector<double> tokens{}, reach{};  // [GPU]
    // [node] The chance that a token needs it at all, where one row goes to a node: it lands on the GPU of the sender's
    // index and is fanned out from there. Empty: every GPU is sent its own rows.
    std::vector<double> hit{};
    std::vector<double> node_tokens{}, node_reach{};  // [node] sums, filled by count()
  };

  // No rows, no sources.
  void clear(const ClusterShape& shape);
  // `rows` from one GPU to another; those that stay on their GPU are none.
  void add(int from, int to, double rows);
  // A source to fill in, and to count() when that is done; it keeps the memory of an earlier one. Not with add().
  Source& new_source();
  void count(Source& source);
  // The traffic that takes links at full rate as long as this one takes links at these shares of it; empty: full rate.
  // A pair goes at the pace of its slower end.
  TrafficMatrix slowed(std::span<const double> link_speed, std::span<const double> nic_speed) const;

  std::span<const Source> sources() const { return {sources_.data(), used_}; }
  std::vector<double> pairs() const;  // [from][to] rows, both hops of those that are fanned out

  std::vector<double> intra_out, intra_in;  // [GPU] rows over its port inside the node
  std::vector<double> inter_out, inter_in;  // [GPU] rows through its NIC
  // What arrives as work of experts.
  std::vector<double> executed;  // [GPU] routed assignments computed there (grouped-GEMM rows)
  std::vector<double> touched;   // [GPU] expected number of physical experts with at least one row

 private:
  void count_per_gpu(const Source& source);
  void count_per_node(const Source& source);
  void slow_down(std::span<const double> speed, bool nics_only);

  ClusterShape shape_;
  std::vector<Source> sources_;  // the first `used_`
  std::size_t used_ = 0;
  std::vector<double> pairs_;            // rows added pair by pair; empty: all are in sources_
  std::vector<double> landed_, remote_;  // [index in the node] tokens that fan out from there; those of other nodes
};

}  // namespace epsim
