// A layer's experts node by node, for rows that are sent once a node.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/domain/cluster_spec.h"
#include "sim/domain/placement.h"

namespace epsim {

// Lists of experts with a copy in a node, as the tokens of some source see them; each different list once. Copies of one
// expert exclude each other, so they count as one.
struct NodeShares {
  struct Entry {
    std::int32_t expert;
    float share;  // of the expert's tokens, that its copies there take together
    auto operator<=>(const Entry&) const = default;
  };
  std::vector<std::size_t> first;     // [list + 1]
  std::vector<Entry> entries;         // list by list, by growing expert
  std::vector<std::int32_t> list_of;  // [source][node]; one source where all are alike

  std::size_t lists() const { return first.size() - 1; }
  std::span<const Entry> list(std::size_t n) const {
    return std::span(entries).subspan(first[n], first[n + 1] - first[n]);
  }
};

NodeShares node_shares(const LayerPlacement& layer, const ClusterShape& shape);

}  // namespace epsim
