// How often two experts serve the same token: what grouping policies plan from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace epsim {

// Co-activation counts, [layer][expert][expert]: tokens of a window that chose both experts in a MoE layer. Symmetric
// with a zero diagonal.
class Affinity {
 public:
  Affinity(int layers, int experts);

  int layers() const { return layers_; }
  int experts() const { return experts_; }
  // All of one layer, row by row: experts x experts values.
  std::span<const double> layer(int l) const { return {count_.data() + offset(l), cells()}; }
  double at(int l, int a, int b) const { return layer(l)[cell(a, b)]; }
  // Counts `tokens` more that chose both; two different experts.
  void add(int l, int a, int b, double tokens = 1.0);
  // Counts all pairs of whole tokens, [token][layer][k]. Ids must be experts, different ones within a token's layer.
  void add_tokens(std::span<const std::uint16_t> ids, int top_k);

 private:
  std::size_t cells() const { return static_cast<std::size_t>(experts_) * static_cast<std::size_t>(experts_); }
  std::size_t offset(int l) const { return static_cast<std::size_t>(l) * cells(); }
  std::size_t cell(int a, int b) const {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(experts_) + static_cast<std::size_t>(b);
  }
  int layers_, experts_;
  std::vector<double> count_;
};

}  // namespace epsim
