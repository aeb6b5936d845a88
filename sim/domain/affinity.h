// How experts are used together: pairs that serve the same token, which grouping policies plan from, and some of the
// tokens themselves, from which a run knows what it sends once (models/network/joint_use.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace epsim {

// Experts of single tokens, [token][layer][k].
struct TokenSample {
  int layers = 0, top_k = 0;
  std::vector<std::uint16_t> experts;

  std::size_t ids_per_token() const { return static_cast<std::size_t>(layers) * static_cast<std::size_t>(top_k); }
  std::size_t tokens() const { return experts.empty() ? 0 : experts.size() / ids_per_token(); }
  // Of token t in MoE layer l.
  std::span<const std::uint16_t> at(std::size_t t, int l) const {
    const auto k = static_cast<std::size_t>(top_k);
    return {experts.data() + t * ids_per_token() + static_cast<std::size_t>(l) * k, k};
  }
};

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
  // Of the tokens added, every n-th, at most kMostKept; none of pairs that were added alone. With so many, how often a
  // GPU is missed is known to 0.4 % of all tokens (one standard deviation).
  static constexpr std::size_t kMostKept = 16384;
  const TokenSample& tokens() const { return sample_; }

 private:
  void keep(std::span<const std::uint16_t> token);
  std::size_t cells() const { return static_cast<std::size_t>(experts_) * static_cast<std::size_t>(experts_); }
  std::size_t offset(int l) const { return static_cast<std::size_t>(l) * cells(); }
  std::size_t cell(int a, int b) const {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(experts_) + static_cast<std::size_t>(b);
  }
  int layers_, experts_;
  std::vector<double> count_;
  TokenSample sample_;
  std::size_t added_ = 0, every_ = 1;  // tokens; one in so many is kept
};

}  // namespace epsim
