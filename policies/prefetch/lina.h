// Lina's two parts: popularity of the next layer's experts from a table of paths, and copies in proportion to it.
//   Source  : Li et al., "Accelerating Distributed MoE Training and Inference with Lina", USENIX ATC 2023, as Libra's
//             Sec. 5 describes its own version (path of the last l = 4 layers, N extra experts per GPU, tokens split
//             evenly). No code by the authors is public: this follows the descriptions.
//   Readings: a token's path is its first choice in each of the l layers before; a path that was never seen counts as
//             the layer's average; copies go one by one to the expert with most tokens per copy, on the lightest GPU
//             without it that has room.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "policies/prefetch/residency.h"

namespace epsim {

// How often each expert of a layer was used after each path, counted on a training split.
class LinaTable {
 public:
  // Layers are MoE layers; paths hold `path_length` layers (fewer where fewer come before). experts^path_length must
  // stay below 2^64.
  LinaTable(int layers, int experts, int top_k, int path_length = 4);

  // One token: its experts [layer][slot], the first choice first.
  void add(std::span<const std::int16_t> experts);

  // Expected uses of each expert of `layer` by a token with these experts in the layers before; sums to top_k. Layer 0
  // has no path: its average.
  std::vector<double> expect(int layer, std::span<const std::int16_t> experts) const;
  // Was this token's path seen in training?
  bool known(int layer, std::span<const std::int16_t> experts) const;

 private:
  using Counts = std::vector<std::uint32_t>;  // [expert]; the last element counts tokens
  std::uint64_t path_of(int layer, std::span<const std::int16_t> experts) const;
  const Counts* find(int layer, std::span<const std::int16_t> experts) const;

  int layers_, experts_, top_k_, path_length_;
  std::vector<std::unordered_map<std::uint64_t, Counts>> by_path_;  // [layer], looked up but never walked
  std::vector<Counts> average_;                                     // [layer]
};

// n_extra more experts on every GPU for the predicted tokens per expert. A GPU that holds every expert gets none.
Residency lina_replicate(std::span<const double> popularity, const Residency& home, int n_extra);

}  // namespace epsim
