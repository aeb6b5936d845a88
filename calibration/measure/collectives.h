// What a collective sends where, and which words must arrive: shared by the benchmark and its check.
//   Models : all_to_all and all_to_allv as grouped sends and receives, all_gather, reduce_scatter, all_reduce.
//   Bytes  : what one rank sends in all (all_to_all, all_to_allv), what a rank has in the end (all_gather), what a rank
//            begins with (reduce_scatter, all_reduce), as in nccl-tests' PERFORMANCE.md; rounded down to whole 8-byte
//            words for every rank, and at least one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace epsim::measure {

enum class MeasuredCollective { kAllToAll, kAllToAllV, kAllGather, kReduceScatter, kAllReduce };

// By the operator's name (calibration/measure/ops.h).
MeasuredCollective collective_kind(std::string_view op);

struct Collective {
  MeasuredCollective kind = MeasuredCollective::kAllToAll;
  std::int64_t bytes = 0;
  int ranks = 1, nodes = 1;

  bool reduces() const { return kind == MeasuredCollective::kReduceScatter || kind == MeasuredCollective::kAllReduce; }
  // 8-byte words that `from` sends to `to`; for all_gather what each contributes; not for reductions. Of all_to_allv,
  // receiver r's share of every sender is as 1 / (1 + r): the receivers are skewed alike on all senders.
  std::int64_t words(int from, int to) const;
  // Where that part begins in the sender's and in the receiver's buffer.
  std::int64_t send_offset(int from, int to) const;
  std::int64_t receive_offset(int from, int to) const;
  std::int64_t send_words(int from) const;  // whole buffers; of reductions as words of two floats
  std::int64_t receive_words(int to) const;
};

// Word `i` of the part that `from` sends to `to` is mix_bits(part_seed(from, to) + i); all_gather sends the part for 0.
std::uint64_t part_seed(int from, int to);
// Float `i` of `rank`'s contribution to a sum is random_value(sum_seed(rank), i, kSumSteps): sums over up to 2^20 ranks
// are exact in float, in whatever order they are taken.
std::uint64_t sum_seed(int rank);
inline constexpr int kSumSteps = 8;
float expected_sum(int ranks, std::int64_t index);

// Which GPUs of a node take part, and the rank of the first: one node's first `ranks`, GPU 0 of every node, or all.
struct Members {
  int gpus = 0, first_rank = 0;
};
Members members_of(const Collective& c, int node, int gpus_per_node);

}  // namespace epsim::measure
