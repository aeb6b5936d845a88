#include "traces/requests/request_options.h"

namespace epsim {

namespace {

// A time key as ticks; longer than a run can be is an error at the key, not one of the conversion.
Ticks checked_ticks(const ConfigReader& in, const Key& key, Seconds time) {
  in.check(time.count() < 9.2e6, std::string(key.name), "this is longer than a run can be (106 days).");
  return to_ticks(time);
}

}  // namespace

RequestOptions read_request_options(ConfigReader& in, Seed seed, EqualTimes equal_times) {
  RequestOptions o;
  o.seed = seed;
  constexpr Key kSliceStart = kRecordingKeys["slice_start"], kSliceLength = kRecordingKeys["slice_length"];
  o.slice_start = checked_ticks(in, kSliceStart, in.read<Seconds>(kSliceStart));
  if (const auto length = in.maybe<Seconds>(kSliceLength)) {
    o.slice_length = checked_ticks(in, kSliceLength, *length);
  }
  o.rate = in.maybe<RequestsPerSecond>(kRecordingKeys["rate"]);
  const bool scaled = in.maybe<double>(kRecordingKeys["time_scale"]).has_value();
  in.check(!(o.rate && scaled), "time_scale", "rate and time_scale exclude each other; state one.");
  const bool by = in.maybe<std::string>(kRecordingKeys["rate_by"]).has_value();
  in.check(o.rate || !by, "rate_by", "it says how `rate` is reached, and no rate is stated.");
  if (o.rate) {
    o.rate_by = in.read<RateMethod>(kRecordingKeys["rate_by"]);
  } else {
    o.time_scale = in.read<double>(kRecordingKeys["time_scale"]);
  }
  o.max_input_tokens = in.maybe<int>(kRecordingKeys["max_input_tokens"]).value_or(0);
  o.max_output_tokens = in.maybe<int>(kRecordingKeys["max_output_tokens"]).value_or(0);
  o.drop_zero_tokens = in.read<bool>(kRecordingKeys["drop_zero_tokens"]);
  o.equal_times = in.read<EqualTimes>(kRecordingKeys["equal_timestamps"], equal_times);
  return o;
}

}  // namespace epsim
