// The matrix shapes that the catalogue's models ask for, each once.
#pragma once

#include <compare>
#include <span>
#include <vector>

#include "sim/domain/moe_spec.h"

namespace epsim::measure {

struct ExpertShape {
  int hidden = 0, intermediate = 0, experts = 0, top_k = 0;
  auto operator<=>(const ExpertShape&) const = default;
};
struct Projection {
  int n = 0, k = 0;  // outputs and inputs
  auto operator<=>(const Projection&) const = default;
};
// `latent`: MLA with absorbed projections, whose values are the keys' first v_dim entries.
struct AttentionShape {
  int heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0;
  bool latent = false;
  auto operator<=>(const AttentionShape&) const = default;
};

// Sorted and without repeats. Attention and dense shapes are those of one GPU at tensor parallelism 1 and 8 where the
// heads and widths divide.
struct SweepShapes {
  std::vector<ExpertShape> experts;
  std::vector<Projection> projections;
  std::vector<Projection> heads;  // output heads: as many outputs as the vocabulary, for few rows
  std::vector<AttentionShape> prefill, decode;
};
SweepShapes shapes_of(std::span<const MoeSpec> models);

}  // namespace epsim::measure
