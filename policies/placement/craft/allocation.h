// CRAFT steps 2 and 3: how many copies altogether, and how many for each layer (Algorithm 2, Appendix A.0.2).
#pragma once

#include <span>
#include <vector>

#include "policies/placement/craft/benefit.h"
#include "sim/core/choice.h"

namespace epsim {

// What the knapsack maximises: the sum of gains (the text of Sec. 4.2.1, default), or of copies x gain (the pseudo-code
// as printed, which concentrates copies in few layers).
enum class CraftObjective { kGain, kGainTimesR };
template <>
inline constexpr auto kNames<CraftObjective> = choice<CraftObjective>({{"gain", CraftObjective::kGain},
                                                                       {"gain_times_r", CraftObjective::kGainTimesR}});

// Multiple-choice knapsack: one count (or none) per layer, so that the counts sum to the budget exactly and the
// objective is largest. Solved for every budget up to `max_budget` at once.
class CraftKnapsack {
 public:
  CraftKnapsack(const GainTable& table, int max_budget, CraftObjective objective);
  bool reachable(int budget) const;
  // Extra copies per layer. `budget` must be reachable. Of equally good choices the earlier, smaller count found wins,
  // as a strict comparison in the order of Algorithm 2 leaves it.
  std::vector<int> solve(int budget) const;
  // The budget of at most `budget` copies with the best choice, the smallest of equally good ones.
  int best_within(int budget) const;

 private:
  std::size_t width_;
  std::size_t layers_;
  std::vector<double> best_;  // [budget], after the last layer
  std::vector<int> choice_;   // [layer][budget], 0 = none
};

// Mean over layers of the gain that the given copies per layer have in the table.
double mean_gain(const GainTable& table, std::span<const int> layer_copies);

// The knee of a gain curve that rises with diminishing returns: the x with the largest distance of normalised gain
// above normalised x (Kneedle, Satopaa et al. 2011, on the raw points). x ascends from 0; ties to the smaller x. The
// first x when no gain exceeds the first.
int knee(std::span<const int> x, std::span<const double> gain);

// How `auto` chooses the replication factor R (extra copies per GPU over all layers): the knee of the mean gain over
// R = 0, 1, 2, 4, .., layers, or the largest gain per copy (the literal text of Sec. 4.2.1; with diminishing returns
// that is nearly always R = 1).
enum class AutoFactor { kKnee, kMaxRatio };
template <>
inline constexpr auto kNames<AutoFactor> = choice<AutoFactor>({{"knee", AutoFactor::kKnee},
                                                               {"max_ratio", AutoFactor::kMaxRatio}});
struct FactorCurve {
  std::vector<int> factor;
  std::vector<double> gain;  // mean over layers of the gain at the best allocation
};
FactorCurve factor_curve(const GainTable& table, int gpus, CraftObjective objective);

int choose_factor(const FactorCurve& curve, AutoFactor rule);

}  // namespace epsim
