// A layer whose copies serve some sources more than others, arranged for the traffic model: what all sources have in
// common apart from what each adds, and what sources have alike written once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/domain/cluster_spec.h"
#include "sim/domain/placement.h"

namespace epsim {

struct VaryingShares {
  // A share above zero that not all sources have alike.
  struct Entry {
    std::int32_t expert, slot;
    float share;
  };
  // Such entries of one GPU, [first, last); sources with the same ones there share the cell.
  struct Cell {
    std::int32_t gpu;
    std::uint32_t first, last;
  };
  // GPUs of one source in one node (a source that spans nodes is split) and its cells: in `cells_of`, those of its own
  // node are [near, far), the others [far, end), each in order of GPUs.
  struct Source {
    std::int32_t first_gpu, last_gpu;
    std::uint32_t near, far, end;
  };

  std::vector<std::int32_t> common_slot;  // slots with one share for all sources, in order
  std::vector<std::int32_t> common_gpu;   // and their GPUs
  std::vector<Entry> entries;
  std::vector<Cell> cells;
  std::vector<std::uint32_t> cells_of;
  std::vector<Source> sources;  // none: no layer of this kind, all shares are common
};

VaryingShares varying_shares(const LayerPlacement& layer, const ClusterShape& shape);

}  // namespace epsim
