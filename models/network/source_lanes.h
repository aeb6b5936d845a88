// Which copies' shares the tokens of each GPU see, where that depends on where they come from (SourceShares).
//
// A lane is a GPU with one set of shares of its slots. Most sources see the same lane of a GPU, the common one; a source
// lists only the lanes that it has apart from these.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/domain/cluster_spec.h"
#include "sim/domain/placement.h"

namespace epsim {

struct SourceLanes {
  // GPUs [first, last) of a node, which see one row of lanes. In `apart`: lanes of their own node from `near` on, of
  // other nodes from `far` on.
  struct Source {
    int choice = 0;  // of SourceShares; 0 where all sources share alike
    int node = 0, first = 0, last = 0;
    int near = 0, far = 0, end = 0;
  };

  int gpus = 0;
  std::vector<std::int32_t> gpu;     // [lane]; lane g is the common one of GPU g, the others follow
  std::vector<std::int32_t> choice;  // [lane] one that sees it
  std::vector<std::int32_t> apart;
  std::vector<Source> sources;  // by growing GPU

  int lanes() const { return static_cast<int>(gpu.size()); }
  std::span<const std::int32_t> near(const Source& s) const { return std::span(apart).subspan(s.near, s.far - s.near); }
  std::span<const std::int32_t> far(const Source& s) const { return std::span(apart).subspan(s.far, s.end - s.far); }
};

// Shares of all slots as `choice` sees them.
std::span<const float> shares_of(const LayerPlacement& layer, int choice);

// All sources alike.
SourceLanes common_lanes(const ClusterShape& shape);
SourceLanes source_lanes(const LayerPlacement& layer, const ClusterShape& shape);

}  // namespace epsim
