#include "traces/requests/request_options.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace epsim {

namespace {

constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();

std::int32_t clip(std::int64_t tokens, std::int32_t limit, bool& clipped) {
  if (limit == 0 || tokens <= limit) {
    return static_cast<std::int32_t>(tokens);
  }
  clipped = true;
  return limit;
}

}  // namespace

RequestOptions read_request_options(ConfigReader& in, bool keep_equal) {
  RequestOptions o;
  o.slice_start = to_ticks(in.optional("slice_start", Seconds{0}));
  if (const auto length = in.maybe<Seconds>("slice_length", Bound::kPositive)) {
    o.slice_length = to_ticks(*length);
  }
  o.rate = in.maybe<RequestsPerSecond>("rate", Bound::kPositive);
  in.check(!(o.rate && in.has("time_scale")), "time_scale", "rate and time_scale exclude each other; state one.");
  o.time_scale = in.optional("time_scale", 1.0, Bound::kPositive);
  o.max_input_tokens = in.maybe<int>("max_input_tokens", Bound::kPositive).value_or(0);
  o.max_output_tokens = in.maybe<int>("max_output_tokens", Bound::kPositive).value_or(0);
  o.drop_zero_tokens = in.optional("drop_zero_tokens", false);
  o.keep_equal_timestamps = in.choice("equal_timestamps", {"error", "keep"}, keep_equal ? "keep" : "error") == "keep";
  return o;
}

bool RequestCollector::usable(std::int64_t input_tokens, std::int64_t output_tokens, const InputPlace& place) {
  if (input_tokens < 0 || output_tokens < 0 || input_tokens > kMaxTokens || output_tokens > kMaxTokens) {
    throw InputError(place, fmt::format("{} input and {} output tokens; both must be within 1 and {}.", input_tokens,
                                        output_tokens, kMaxTokens));
  }
  if (input_tokens > 0 && output_tokens > 0) {
    return true;
  }
  if (!options_.drop_zero_tokens) {
    throw InputError(place, fmt::format("{} input and {} output tokens; a request needs at least 1 of each. Set "
                                        "drop_zero_tokens: true to leave such rows out.",
                                        input_tokens, output_tokens));
  }
  ++dropped_;
  return false;
}

void RequestCollector::add(Ticks since_start, std::int64_t input_tokens, std::int64_t output_tokens,
                           const InputPlace& place) {
  ++rows_;
  if (since_start < previous_.value_or(Ticks{0})) {
    throw InputError(place, "this row's time is before the one ahead of it; rows must be sorted by arrival time.");
  }
  if (since_start == previous_ && !options_.keep_equal_timestamps) {
    throw InputError(place,
                     "this row has the same time as the one ahead of it. Set equal_timestamps: keep to let "
                     "both arrive at once.");
  }
  previous_ = since_start;
  const bool in_slice = since_start >= options_.slice_start &&
                        (!options_.slice_length || since_start - options_.slice_start < *options_.slice_length);
  if (!usable(input_tokens, output_tokens, place) || !in_slice) {
    return;
  }
  bool clipped = false;
  Request r;
  r.arrival = since_start - options_.slice_start;
  r.input_tokens = clip(input_tokens, options_.max_input_tokens, clipped);
  r.output_tokens = clip(output_tokens, options_.max_output_tokens, clipped);
  clipped_ += clipped ? 1 : 0;
  trace_.requests.push_back(r);
}

// Divides every arrival by the scale; long double holds all 63 bits of a tick count, so a scale of 1 changes nothing.
void RequestCollector::rescale() {
  double scale = options_.time_scale;
  if (options_.rate) {
    const Ticks span = trace_.requests.back().arrival - trace_.requests.front().arrival;
    if (span.count() == 0) {
      throw InputError({trace_.source, 0, "rate"}, "the requests all arrive at once, so no scale gives them a rate.");
    }
    const double recorded = static_cast<double>(trace_.requests.size() - 1) / to_seconds(span).count();
    scale = options_.rate->count() / recorded;
  }
  if (scale == 1.0) {
    return;
  }
  const Ticks last = trace_.requests.back().arrival;
  if (static_cast<double>(last.count()) / scale > 9.2e18) {
    throw InputError({trace_.source, 0, options_.rate ? "rate" : "time_scale"},
                     "the stretched trace is longer than a run can be (106 days).");
  }
  for (Request& r : trace_.requests) {
    r.arrival = Ticks{std::llround(static_cast<long double>(r.arrival.count()) / static_cast<long double>(scale))};
  }
}

RequestTrace RequestCollector::finish(const std::string& source) {
  trace_.source = source;
  if (rows_ == 0) {
    throw InputError({source, 0, ""}, "the trace holds no request.");
  }
  if (trace_.requests.empty()) {
    throw InputError({source, 0, ""}, fmt::format("none of the {} rows is left after slicing and dropping.", rows_));
  }
  rescale();
  if (dropped_ > 0) {
    trace_.source += fmt::format(" ({} of {} rows dropped: no input or output tokens)", dropped_, rows_);
  }
  if (clipped_ > 0) {
    trace_.source += fmt::format(" ({} requests clipped)", clipped_);
  }
  trace_.validate();
  return std::move(trace_);
}

}  // namespace epsim
