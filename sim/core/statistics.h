// Summaries of samples. Every quantile states its rule: the smallest sample with at least that share at or below it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace epsim {

// Mean and variance in one pass (Welford 1962).
class RunningStats {
 public:
  void add(double x) {
    ++count_;
    const double delta = x - mean_;
    mean_ += delta / static_cast<double>(count_);
    m2_ += delta * (x - mean_);
    min_ = x < min_ ? x : min_;
    max_ = x > max_ ? x : max_;
  }
  std::int64_t count() const { return count_; }
  double mean() const { return mean_; }
  double variance() const { return count_ > 1 ? m2_ / static_cast<double>(count_ - 1) : 0.0; }
  double min() const { return min_; }
  double max() const { return max_; }

 private:
  std::int64_t count_ = 0;
  double mean_ = 0.0, m2_ = 0.0;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
};

// Which of n samples (>= 1) in ascending order, from 0, is the quantile.
std::size_t quantile_position(double q, std::size_t n);

struct Summary {
  std::int64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};
Summary summarize(std::vector<double> samples);

// The same of samples that nobody keeps: `samples(take)` hands them to `take` in parts, and does so anew, in the same order,
// each time it is called (five times).
using SampleParts = std::function<void(const std::function<void(std::span<const double>)>& take)>;
Summary summarize_parts(const SampleParts& samples);

// Samples that come with a multiplicity, such as one gap between tokens that many requests share.
class WeightedSamples {
 public:
  void add(double value, std::int64_t weight) {
    if (weight > 0) {
      entries_.push_back({value, weight});
      count_ += weight;
      sum_ += value * static_cast<double>(weight);
    }
  }
  // Reorders what it keeps, and copies nothing.
  Summary summary();
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    double value;
    std::int64_t weight;
  };
  std::deque<Entry> entries_;  // which grows without a copy
  std::int64_t count_ = 0;
  double sum_ = 0;  // in the order of add(), so that the mean does not depend on the sort
};

// Half width of the 95 % confidence interval of the mean from `batches` batch means (Student's t). Samples are taken in
// order, so that correlation inside a batch does not narrow the interval. Infinite with fewer than two batches.
double batch_means_half_width(std::span<const double> samples, int batches = 20);

// Two-sided 95 % quantile of Student's t with the given degrees of freedom (>= 1).
double student_t_95(int degrees_of_freedom);

// Student's t, with `cosines` degrees of freedom, of a linear trend in a series whose values may be correlated: the
// series' projection on a straight line over the root mean square of those on the waves of 1, 2, .. `cosines` periods.
// Line and waves are orthonormal, and a trend leaves nothing in waves that are even about the middle. Of independent
// normal values all projections are as large on average, so that this is t to the letter; of correlated ones they still
// are where correlation dies out within a period of the shortest wave. 0 of fewer than 2 x cosines + 2 values.
// Source: Mueller (2007) and Lazarus, Lewis, Stock and Watson (2018, J. Business & Economic Statistics 36:541), who
//         estimate long-run variances so, from 0.4 x n^(2/3) waves.
double trend_t(std::span<const double> series, int cosines);

}  // namespace epsim
