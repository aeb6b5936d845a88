// A layer's slots as a structure of arrays: first slots of all lanes (SourceLanes) beside each other, then all second
// ones.
//
//   Models : what a token of top-k different experts sends to each lane (MissProbability, slot by slot), the rows that
//            each GPU computes, and how many of its experts they touch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/network/source_lanes.h"
#include "sim/domain/placement.h"

namespace epsim {

// 1 - exp(-mean): the chance that a Poisson count is not zero, within 3e-7.
double at_least_one(double mean);
// The same where rows were drawn (StepLoads::counted): `here` = share * rows of the expert, each of which comes here with
// chance `share`; 1 - (1 - share)^rows. A part of a row is the chance of one.
double at_least_one_drawn(double here, double share);

// A value of its expert for each slot, and scratch of the functions that ask for it.
struct SlotValues {
  std::vector<double> values, rows;           // [slot], in SoaSlots' order
  std::vector<double> missed, exponent, sum;  // [lane]
};

class SoaSlots {
 public:
  // What rows are: chances, or drawn (StepLoads::counted): one row for all sources, or each source's own.
  enum class Counted { kNo, kTogether, kBySource };

  SoaSlots(const LayerPlacement& layer, const SourceLanes& lanes);

  void gather(std::span<const float> per_expert, SlotValues& out) const;
  void gather(std::span<const double> per_expert, SlotValues& out) const;

  // In the following, `pi` holds the chance that a token uses the slot's expert.
  // [lane] The chance that such a token needs it. `weight` is pair_weight() of all experts' chances.
  void reach(SlotValues& pi, double weight, std::vector<double>& out) const;
  // The same where experts are used together: `exponents` [lane] (JointUse).
  void reach(SlotValues& pi, double weight, std::span<const double> exponents, std::vector<double>& out) const;
  // [lane] Rows that such a token sends there when every (token, expert) pair is a row.
  void sum_rows(const SlotValues& pi, std::vector<double>& out) const;
  // Adds to `rows` [slot, in SoaSlots' order] what tokens [lane] of this mix, which see that lane, have computed there.
  void add_rows(const SlotValues& pi, const std::vector<double>& tokens, std::vector<double>& rows) const;
  // What add_rows() came to for each GPU, and the number of its experts with at least one row.
  void execute(std::vector<double>& slot_rows, Counted counted, std::vector<double>& rows,
               std::vector<double>& touched) const;
  // Rows computed on each GPU when expert e has pi[e] * scale in all, and the number of its experts with at least one;
  // where all sources share copies alike.
  void execute(SlotValues& pi, double scale, Counted counted, std::vector<double>& rows,
               std::vector<double>& touched) const;

 private:
  void keep_one_of_alike();
  // What reach() comes from, in pi's scratch; `out` is void where this returns true (reach_of).
  bool miss(SlotValues& pi, double weight, std::vector<double>& out) const;
  void touch(const double* here, std::int64_t count, std::int64_t first, Counted counted, double* touched) const;
  void execute_alike(SlotValues& pi, double scale, Counted counted, std::vector<double>& rows,
                     std::vector<double>& touched) const;

  bool alike_ = false;  // all GPUs hold the same, as those of one EP rank do: one is worked out for all
  int gpus_ = 0;
  std::int64_t stride_ = 0, columns_ = 0;  // stride: lanes, rounded up to kWhole; 1 of GPUs that are alike
  std::vector<std::int32_t> gpu_;          // [lane]
  // [column][stride]; a lane with fewer slots than another ends with ones of no share.
  std::vector<std::int32_t> expert_;
  std::vector<double> share_;
  bool one_copy_each_ = false;  // every source takes one copy of each expert alone
  std::vector<double> missed_;  // per row that comes here, of at_least_one_drawn(); empty: no expert has copies
  std::vector<double> held_;    // [lane] slots with a share
};

}  // namespace epsim
