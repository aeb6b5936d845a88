#include "calibration/measure/collectives.h"

#include <algorithm>
#include <string>
#include <utility>

#include "calibration/measure/numbers.h"
#include "calibration/measure/rows.h"
#include "sim/core/check.h"

namespace epsim::measure {
namespace {

// Words of each receiver, the same for every sender.
std::vector<std::int64_t> parts_of(const Collective& c) {
  const std::int64_t each = std::max<std::int64_t>(1, c.bytes / 8 / c.ranks);
  if (c.kind != MeasuredCollective::kAllToAllV) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(c.ranks), each);
  }
  std::vector<std::int64_t> parts = split_rows(RowDistribution::kZipf, c.ranks, each * c.ranks);
  for (std::int64_t& p : parts) {
    p = std::max<std::int64_t>(1, p);
  }
  return parts;
}

std::int64_t sum_before(const std::vector<std::int64_t>& parts, int end) {
  std::int64_t sum = 0;
  for (int i = 0; i < end; ++i) {
    sum += parts[static_cast<std::size_t>(i)];
  }
  return sum;
}

}  // namespace

MeasuredCollective collective_kind(std::string_view op) {
  using K = MeasuredCollective;
  constexpr std::pair<std::string_view, K> kKinds[] = {{"nccl_all_to_all", K::kAllToAll},
                                                       {"nccl_all_to_allv", K::kAllToAllV},
                                                       {"nccl_all_gather", K::kAllGather},
                                                       {"nccl_reduce_scatter", K::kReduceScatter},
                                                       {"nccl_all_reduce", K::kAllReduce}};
  for (const auto& [name, kind] : kKinds) {
    if (name == op) {
      return kind;
    }
  }
  EPSIM_CHECK(false, std::string(op) + " is no collective");
}

std::int64_t Collective::words(int, int to) const { return parts_of(*this)[static_cast<std::size_t>(to)]; }

std::int64_t Collective::send_offset(int, int to) const {
  return kind == MeasuredCollective::kAllGather ? 0 : sum_before(parts_of(*this), to);
}

std::int64_t Collective::receive_offset(int from, int to) const { return from * words(from, to); }

std::int64_t Collective::send_words(int from) const {
  if (kind == MeasuredCollective::kAllGather) {
    return words(from, 0);
  }
  return sum_before(parts_of(*this), ranks);
}

std::int64_t Collective::receive_words(int to) const {
  switch (kind) {
    case MeasuredCollective::kReduceScatter:
      return words(0, to);
    case MeasuredCollective::kAllReduce:
      return send_words(0);
    default:
      return ranks * words(0, to);
  }
}

std::uint64_t part_seed(int from, int to) {
  return mix_bits((static_cast<std::uint64_t>(from) << 32) + static_cast<std::uint64_t>(to));
}

std::uint64_t sum_seed(int rank) { return 71 + static_cast<std::uint64_t>(rank); }

float expected_sum(int ranks, std::int64_t index) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) {
    sum += random_value(sum_seed(r), static_cast<std::uint64_t>(index), kSumSteps);
  }
  return sum;
}

Members members_of(const Collective& c, int node, int gpus_per_node) {
  if (c.nodes == 1) {
    return {node == 0 ? c.ranks : 0, 0};
  }
  const int each = c.ranks / c.nodes;
  EPSIM_CHECK(each * c.nodes == c.ranks && each <= gpus_per_node, "ranks are spread evenly over nodes");
  return {each, node * each};
}

}  // namespace epsim::measure
