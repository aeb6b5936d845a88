// A layer's slots with all GPUs' first slots beside each other, then all second ones: lanes of vectors are GPUs.
//
//   Models : what a token of top-k different experts sends to each GPU (MissChance, slot by slot), the rows that each
//            GPU computes, and how many of its experts they touch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/domain/placement.h"

namespace epsim {

// 1 - exp(-mean): the chance that a Poisson count is not zero, within 3e-7.
double at_least_one(double mean);

// Scratch of reach(): a MissChance of every GPU, part by part.
struct ReachSums {
  std::vector<double> pi;                    // [expert]
  std::vector<double> missed, sum, squares;  // [GPU]
};

class SlotColumns {
 public:
  explicit SlotColumns(const LayerPlacement& layer);

  // The chance that a token which uses expert e with chance pi[e] needs GPU g. `weight` is pair_weight() of pi.
  void reach(std::span<const float> pi, double weight, ReachSums& scratch, std::vector<double>& out) const;
  // Rows that such a token sends to GPU g when every (token, expert) pair is a row.
  void sum_rows(std::span<const float> pi, std::vector<double>& out) const;
  // Rows computed on each GPU of expert_rows[e] in all, and the number of its experts with at least one.
  void execute(std::span<const double> expert_rows, std::vector<double>& scratch, std::vector<double>& rows,
               std::vector<double>& touched) const;

 private:
  std::size_t gpus_ = 0, columns_ = 0;
  // [column][GPU]; a GPU with fewer slots than another ends with ones of no share.
  std::vector<std::int32_t> expert_;
  std::vector<double> share_;
};

}  // namespace epsim
