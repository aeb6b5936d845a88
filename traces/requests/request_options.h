// What can be asked of every recorded request trace, whatever its format.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/core/config.h"
#include "sim/core/rng.h"
#include "sim/core/units.h"

namespace epsim {

// What requests that arrive at the same instant are: an error, a true burst, or the work of a coarse clock. kSpread
// sets n requests of one instant evenly over the time until the next one (the last group: over the gap ahead of it).
enum class EqualTimes { kError, kKeep, kSpread };

// How a recording is brought to another rate. kStretch divides all gaps, so hours become minutes. kResample leaves the
// time axis as it is: each request is kept k times, k having the ratio of the rates as its mean (floor or ceiling of
// it); copies arrive at random instants before the next recorded request, keep the lengths, and share prefix blocks
// only with copies of the same number, so that a copy is no hit for its original.
enum class RateMethod { kStretch, kResample };

// Keys of a recorded trace's section:
//   slice_start, slice_length            keep arrivals in [start, start + length) of the recording; time 0 becomes its
//                                        start
//   time_scale                           arrival gaps are divided by it: 2 = twice the request rate (default 1)
//   rate                                 wanted (requests - 1) / (last - first arrival); not with time_scale
//   rate_by                              stretch (default) | resample: how the rate is reached
//   max_input_tokens, max_output_tokens  longer requests are clipped to this
//   drop_zero_tokens                     false (default): a request without input or output tokens is an error naming
//                                        its line; true: it is left out and counted in the trace's source
//   equal_timestamps                     error | keep | spread
struct RequestOptions {
  Ticks slice_start{0};
  std::optional<Ticks> slice_length;
  double time_scale = 1.0;
  std::optional<RequestsPerSecond> rate;
  RateMethod rate_by = RateMethod::kStretch;
  std::int32_t max_input_tokens = 0, max_output_tokens = 0;  // 0 = as recorded
  bool drop_zero_tokens = false;
  EqualTimes equal_times = EqualTimes::kError;
  Seed seed{0};  // of the copies that resampling draws
};

// `equal_times` is the format's default for equal_timestamps: kKeep where its clock is coarse.
RequestOptions read_request_options(ConfigReader& in, Seed seed, EqualTimes equal_times);

}  // namespace epsim
