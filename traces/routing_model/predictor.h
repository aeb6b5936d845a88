// Predicted expert ids made from true ones, for policies that fetch or move experts before the router has spoken.
//
//   Models : two things that a predictor gets wrong, both stated. `hit_rate`: the chance that the expert of a (token,
//            slot) is predicted (Libra's accuracy, its section 5.2). And the popularity of the predictions: p' ~
//            ((1 - stale) p + stale q) * e^(sigma g), g normal for every expert and layer, q an older popularity.
//            Misses drawn from the true popularity leave predicted loads nearly right whatever the hit rate; distorted
//            ones do not.
//   Method : a slot whose true expert is e is kept with chance h min(1, p'_e / p_e), and else filled from what p' has
//            left. So hit rate and popularity are both as stated, where they can be: a popularity that differs by the
//            total variation d leaves no hit rate above 1 - d.
//   Ignores: correlation of errors between tokens and layers.
//   Valid  : choices have no duplicates, which flattens the predicted popularity a little: with 4 of 32 experts and a
//            hit rate of 0.3 by a deviation of 0.08 of its logarithm, with more experts less.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/rng.h"
#include "sim/domain/load_window.h"
#include "traces/routing_model/alias_table.h"

namespace epsim {

struct PredictorSpec {
  std::vector<double> hit_rate;  // of every layer, or one for all
  double sigma = 0;              // deviation of ln(popularity of predictions over the true one)
  double stale = 0;              // share of the older popularity
  LoadWindow stale_loads{};      // that popularity, when stale > 0
};

class TracePredictor {
 public:
  // `truth`: loads of the trace. Throws InputError when the spec is impossible: hit rates outside 0 to 1, or above what
  // the distortion leaves, in which case the message says what it does leave.
  TracePredictor(const LoadWindow& truth, int top_k, const PredictorSpec& spec, Seed seed);

  // Predictions for true ids [token][layer][k] whose first token has the number `first_token` in the trace. Depends on
  // the seed and the numbers alone; const and safe to share between threads.
  void predict(std::int64_t first_token, std::span<const std::uint16_t> truth, std::span<std::uint16_t> out) const;

 private:
  struct Layer {
    std::vector<float> keep;  // [expert] chance that it is predicted where it is true
    AliasTable misses;
    bool can_miss = false;
  };
  void predict_choice(const Layer& layer, RandomStream& random, std::span<const std::uint16_t> truth,
                      std::span<std::uint16_t> out) const;

  int top_k_;
  Seed seed_;
  std::vector<Layer> layers_;
};

}  // namespace epsim
