#include "traces/requests/request_options.h"

namespace epsim {

namespace {

constexpr const char* kEqualNames[] = {"error", "keep", "spread"};  // in the order of EqualTimes

EqualTimes read_equal_times(ConfigReader& in, EqualTimes fallback) {
  const std::string name = in.choice("equal_timestamps", {kEqualNames[0], kEqualNames[1], kEqualNames[2]},
                                     kEqualNames[static_cast<int>(fallback)]);
  return name == "error" ? EqualTimes::kError : name == "keep" ? EqualTimes::kKeep : EqualTimes::kSpread;
}

// A time key as ticks; longer than a run can be is an error at the key, not one of the conversion.
Ticks checked_ticks(const ConfigReader& in, const std::string& key, Seconds time) {
  in.check(time.count() < 9.2e6, key, "this is longer than a run can be (106 days).");
  return to_ticks(time);
}

}  // namespace

RequestOptions read_request_options(ConfigReader& in, Seed seed, EqualTimes equal_times) {
  RequestOptions o;
  o.seed = seed;
  o.slice_start = checked_ticks(in, "slice_start", in.optional("slice_start", Seconds{0}));
  if (const auto length = in.maybe<Seconds>("slice_length", Bound::kPositive)) {
    o.slice_length = checked_ticks(in, "slice_length", *length);
  }
  o.rate = in.maybe<RequestsPerSecond>("rate", Bound::kPositive);
  in.check(!(o.rate && in.has("time_scale")), "time_scale", "rate and time_scale exclude each other; state one.");
  o.time_scale = in.optional("time_scale", 1.0, Bound::kPositive);
  if (o.rate) {
    o.rate_by = in.choice("rate_by", {"stretch", "resample"}, "stretch") == "stretch" ? RateMethod::kStretch
                                                                                      : RateMethod::kResample;
  }
  o.max_input_tokens = in.maybe<int>("max_input_tokens", Bound::kPositive).value_or(0);
  o.max_output_tokens = in.maybe<int>("max_output_tokens", Bound::kPositive).value_or(0);
  o.drop_zero_tokens = in.optional("drop_zero_tokens", false);
  o.equal_times = read_equal_times(in, equal_times);
  return o;
}

}  // namespace epsim
