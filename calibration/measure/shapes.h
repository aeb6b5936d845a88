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
// Sorted and without repeats. Projections are those of one GPU at tensor parallelism 1 and 8 where the
// heads and widths divide.
struct SweepShapes {
  std::vector<ExpertShape> experts;
  std::vector<Projection> projections;
  std::vector<Projection> heads;  // output heads: as many outputs as the vocabulary, for few rows
};
SweepShapes shapes_of(std::span<const MoeSpec> models);

}  // namespace epsim::measure
