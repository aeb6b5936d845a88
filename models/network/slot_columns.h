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

// A value of its expert for each slot, and scratch of the functions that ask for it.
struct SlotValues {
  std::vector<double> values, rows;      // [slot], in SlotColumns' order
  std::vector<double> missed, exponent;  // [GPU]
};

class SlotColumns {
 public:
  static constexpr std::size_t kLanes = 8;

  explicit SlotColumns(const LayerPlacement& layer);

  void gather(std::span<const float> per_expert, SlotValues& out) const;
  void gather(std::span<const double> per_expert, SlotValues& out) const;

  // In the following, `pi` holds the chance that a token uses the slot's expert.
  // The chance that such a token needs GPU g. `weight` is pair_weight() of all experts' chances.
  void reach(SlotValues& pi, double weight, std::vector<double>& out) const;
  // Rows that such a token sends to GPU g when every (token, expert) pair is a row.
  void sum_rows(const SlotValues& pi, std::vector<double>& out) const;
  // Rows computed on each GPU when expert e has pi[e] * scale in all, and the number of its experts with at least one.
  void execute(SlotValues& pi, double scale, std::vector<double>& rows, std::vector<double>& touched) const;

 private:
  std::size_t gpus_ = 0, stride_ = 0, columns_ = 0;  // stride: GPUs, rounded up to whole vectors
  // [column][stride]; a GPU with fewer slots than another ends with ones of no share.
  std::vector<std::int32_t> expert_;
  std::vector<double> share_;
  std::vector<double> held_;  // [GPU] slots with a share
};

}  // namespace epsim
