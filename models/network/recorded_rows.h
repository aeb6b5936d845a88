// What tokens that were recorded one by one send, counted once for each of their rows.
//
//   Models : the share of a row's tokens that need some copy of a set (CopySets). A step of another number of tokens has
//            the same share.
//   Cost   : a row's first step counts its tokens; as long as kMostKept lasts, its next ones look the result up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/network/joint_use.h"
#include "sim/domain/step_loads.h"

namespace epsim {

class RecordedRows {
 public:
  void add_layer(CopySets sets);
  // [set] of MoE layer l, until the next call. The loads are of recorded tokens.
  std::span<const double> hits(int l, const StepLoads& loads);

 private:
  static constexpr std::size_t kMostKept = std::size_t{8} << 20;  // values, of 8 bytes
  struct Source {
    const void* id = nullptr;
    std::vector<std::vector<double>> rows;  // [row][layer, set]; empty: not kept
  };
  std::span<double> kept(int l, const RecordedTokens& tokens);

  std::vector<CopySets> sets_;         // [layer]
  std::vector<std::size_t> first_{0};  // [layer + 1] sets before
  std::vector<Source> sources_;
  std::size_t kept_ = 0;
  std::vector<double> scratch_;
  TokenCount count_;
};

}  // namespace epsim
