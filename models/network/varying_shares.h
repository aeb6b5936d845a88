// A layer whose copies serve some sources more than others, arranged for the traffic model: what all sources have in
// common apart from what each adds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/domain/placement.h"

namespace epsim {

struct VaryingShares {
  // A share above zero that not all sources have alike.
  struct Entry {
    std::int32_t gpu, expert, slot;
    float share;
  };

  int gpus_per_source = 0;                // 0 = no layer of this kind: all shares are common
  std::vector<std::int32_t> common_slot;  // slots with one share for all sources, in order
  std::vector<std::int32_t> common_gpu;   // and their GPUs
  std::vector<std::size_t> first_entry;   // [source + 1]
  std::vector<Entry> entries;             // source by source, in order of slots

  int sources() const { return static_cast<int>(first_entry.size()) - 1; }
  std::span<const Entry> of_source(int s) const {
    const auto at = static_cast<std::size_t>(s);
    return std::span(entries).subspan(first_entry[at], first_entry[at + 1] - first_entry[at]);
  }
};

VaryingShares varying_shares(const LayerPlacement& layer);

}  // namespace epsim
