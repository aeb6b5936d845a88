// A layer's experts node by node, for rows that are sent once a node.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/domain/cluster_spec.h"
#include "sim/domain/placement.h"

namespace epsim {

// Lists of experts with a copy in a node. Copies of one expert exclude each other, so they count as one.
struct NodeShares {
  struct Entry {
    std::int32_t expert;
    float share;  // of the expert's tokens, that its copies there take together
    bool operator==(const Entry&) const = default;
  };
  std::vector<std::size_t> first;  // [list + 1]
  std::vector<Entry> entries;      // list by list, by growing expert

  std::size_t lists() const { return first.size() - 1; }
  std::span<const Entry> list(std::size_t n) const {
    return std::span(entries).subspan(first[n], first[n + 1] - first[n]);
  }
};

// One list per node, with `shares` per slot: the layer's own, or those of one source.
NodeShares node_shares(const LayerPlacement& layer, const ClusterShape& shape, std::span<const float> shares);
// The same for `slots` alone, with the layer's own shares.
NodeShares common_node_shares(const LayerPlacement& layer, const ClusterShape& shape,
                              std::span<const std::int32_t> slots);

// A layer whose copies serve sources differently: each different list once.
struct SourceNodeShares {
  NodeShares lists;
  std::vector<std::uint32_t> list_of;  // [source][node]; empty when all sources are alike
};
SourceNodeShares source_node_shares(const LayerPlacement& layer, const ClusterShape& shape);

}  // namespace epsim
