// When a measurement has been repeated often enough.
//   Models : independent samples of one time; the median and its distribution-free 95 % interval from order statistics
//            (Conover, "Practical Nonparametric Statistics", 3rd ed., section 3.2).
//   Ignores: drift and correlation between samples; clocks and throttling are recorded beside the points instead.
//   Valid  : from 6 samples on; fewer give an infinite interval, since 1 - 2^(1-n) is below 95 %.
#pragma once

#include <optional>
#include <span>

#include "sim/core/units.h"

namespace epsim::measure {

struct StopRule {
  double relative_error = 0.02;  // half width of the interval over the median
  int min_repeats = 7;
  int max_repeats = 400;
  Seconds budget{0.25};   // of wall time for one point, warm-up left out; looked at after min_repeats
  Seconds warm_up{0.01};  // of the device's time, and at least `warm_up_launches`
  int warm_up_launches = 3;
  Seconds batch{50e-6};  // launches are timed together until a batch is predicted to take this long
  int max_batch = 64;

  // Throws InputError naming the figure that is impossible.
  void validate() const;
};

struct Interval {
  double median = 0;
  double relative_half_width = 0;  // infinite below 6 samples
};
// Samples in any order, at least one, all positive.
Interval median_interval(std::span<const double> samples);

// Number r of the order statistic x_(r), 1-based, so that [x_(r), x_(n+1-r)] holds the median with 95 %; 0 = none does.
int interval_rank(int samples);

// Of `samples`, taken in `spent` of wall time, where they are enough.
std::optional<Interval> settled(const StopRule& rule, std::span<const double> samples, Seconds spent);

// Launches to time together when one takes `one` (measured or predicted).
int batch_size(const StopRule& rule, Seconds one);

}  // namespace epsim::measure
