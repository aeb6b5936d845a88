// A routing model made ready for sampling: tables in the layout that the inner loops want, calibrated so that the mean
// over topics is the model's popularity.
//
//   Cost   : constructing takes about 1 ms per layer of 256 experts (arrangement and calibration); sampling a layer's
//            chances about 1.5 ns per expert with 8 factors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "sim/core/rng.h"
#include "traces/routing_model/byte_gaussian.h"
#include "traces/routing_model/routing_model.h"

namespace epsim {

// A point in topic space. `variance` is that of its coordinates, which the law's mean correction needs.
struct Topic {
  std::vector<float> z;
  float variance = 0;
};

class RoutingLaw {
 public:
  explicit RoutingLaw(RoutingModel model);

  const RoutingModel& model() const { return model_; }
  int layers() const { return static_cast<int>(model_.layers.size()); }
  int experts() const { return model_.experts; }
  int top_k() const { return model_.top_k; }
  std::size_t factors() const { return factors_; }
  std::size_t stride() const { return stride_; }  // experts, rounded up to whole vectors

  // Shares of layer l, summing to 1: the mean over topics.
  std::span<const double> popularity(int l) const;
  // The same before this window's drift.
  std::span<const double> lasting_popularity(int l) const;
  // Mean variance of ln(share) at unit variance of the topic's coordinates.
  float spread(int l) const { return spread_[l]; }

  // Square roots of unnormalised chances, [stride], zero in the padding; returns the sum of their squares. `z` is
  // [factors], of the stated variance.
  float roots(int l, std::span<const float> z, float variance, std::span<float> out) const;
  // Chances per token, [stride] with zeros in the padding: at most 1 each, summing to top-k.
  void chances(int l, const Topic& topic, std::span<float> out) const;

 private:
  std::size_t at(int l) const { return static_cast<std::size_t>(l) * stride_; }
  void set_popularity(int l);
  void keep_shares(int l, std::span<const double> shares, std::vector<double>& to) const;
  void drift_to_window(int l, std::span<double> shares) const;
  void set_loadings(int l);
  void calibrate(int l);

  RoutingModel model_;
  std::size_t stride_, factors_;
  std::vector<double> popularity_, lasting_popularity_;  // [layer][experts]
  std::vector<float> log_share_;                         // [layer][stride]
  std::vector<float> slope_;     // [layer][stride] mean correction per variance of the topic's coordinates
  std::vector<float> loadings_;  // [layer][stride / kWide][factor][kWide], times sigma
  std::vector<float> spread_;    // [layer]
};

// Scales a row so that it sums to `total` with no value above `most`: what capped values cannot take goes to the others in
// proportion, a few rounds of which settle it, as each caps at least one more. Where the others are all 0 the sum is less.
template <class Value>
void cap_row(std::span<Value> row, Value most, double total) {
  bool over = true;
  for (std::size_t round = 0; over && round <= row.size(); ++round) {
    double capped = 0, rest = 0;
    for (const Value x : row) {
      (x >= most ? capped : rest) += static_cast<double>(std::min(x, most));
    }
    const double scale = rest > 0 ? std::max(0.0, total - capped) / rest : 0;
    over = false;
    for (Value& x : row) {
      x = x >= most ? most : static_cast<Value>(x * scale);
      over = over || x > most;
    }
  }
}

// The same with no value above 1, whatever the row sums to. At least `total` values must be positive.
void scale_capped(std::span<float> row, double total);

}  // namespace epsim
