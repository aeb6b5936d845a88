// What can be asked of every recorded request trace, whatever its format.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/core/choice.h"
#include "sim/core/config.h"
#include "sim/core/key.h"
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

template <>
inline constexpr auto kNames<EqualTimes> =
    choice<EqualTimes>({{"error", EqualTimes::kError}, {"keep", EqualTimes::kKeep}, {"spread", EqualTimes::kSpread}});
template <>
inline constexpr auto kNames<RateMethod> = choice<RateMethod>({{"stretch", RateMethod::kStretch},
                                                               {"resample", RateMethod::kResample}});

struct RequestOptions {
  // Arrivals in [start, start + length) of the recording are kept; time 0 becomes its start.
  Ticks slice_start{0};
  std::optional<Ticks> slice_length;
  double time_scale = 1.0;
  std::optional<RequestsPerSecond> rate;  // wanted (requests - 1) / (last - first arrival); not with time_scale
  RateMethod rate_by = RateMethod::kStretch;
  std::int32_t max_input_tokens = 0, max_output_tokens = 0;  // 0 = as recorded
  // A request without input or output tokens is left out and counted in the trace's source; else it is an error.
  bool drop_zero_tokens = false;
  EqualTimes equal_times = EqualTimes::kError;
  Seed seed{0};  // of the copies that resampling draws
};

inline constexpr double kMostRate = 1e12;  // requests/s: one a tick, all at once to any deployment
inline constexpr Range kRateRange = at_most(kMostRate, Bound::kPositive);

inline constexpr KeyTable kRecordingKeys({
    {"path", key::path(), key::kRequired, "The recorded trace; gzip is fine."},
    {"rate", key::request_rate(kRateRange), key::by("as recorded"), "Scale the recording to this mean rate."},
    {"rate_by", key::one_of<RateMethod>(), key::is(RequestOptions{}.rate_by),
     "stretch: divide the gaps; resample: drop or copy requests."},
    {"time_scale", key::number(Bound::kPositive), key::is(RequestOptions{}.time_scale),
     "Divide the gaps by this; 2 doubles the rate."},
    {"slice_start", key::time(), key::is(Seconds(0)), "Start of the part of the recording that is used."},
    {"slice_length", key::time(Bound::kPositive), key::by("to the end"), "Length of that part."},
    {"max_input_tokens", key::whole(Bound::kPositive), key::by("no limit"), "Cut prompts to this length."},
    {"max_output_tokens", key::whole(Bound::kPositive), key::by("no limit"), "Cut answers to this length."},
    {"drop_zero_tokens", key::flag(), key::is(RequestOptions{}.drop_zero_tokens),
     "Drop requests without prompt or answer instead of refusing them."},
    {"equal_timestamps", key::one_of<EqualTimes>(), key::by("the format's"),
     "What to do with requests at the same instant."},
});

// `equal_times` is the format's default for equal_timestamps: kKeep where its clock is coarse.
RequestOptions read_request_options(ConfigReader& in, Seed seed, EqualTimes equal_times);

}  // namespace epsim
