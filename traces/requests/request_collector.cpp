#include "traces/requests/request_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/core/refuse.h"

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

// The k-th of n even parts of `gap`, without the overflow of gap * k.
Ticks part(Ticks gap, std::int64_t k, std::int64_t n) { return gap / n * k + gap % n * k / n; }

}  // namespace

RequestCollector::RequestCollector(const RequestOptions& options, int block_tokens, bool answers) : options_(options) {
  table_.answers = answers;
  table_.block_tokens = block_tokens;
  if (block_tokens > 0) {
    table_.prefix_start.push_back(0);
  }
}

bool RequestCollector::usable(std::int64_t input_tokens, std::int64_t output_tokens, const InputPlace& place) {
  if (input_tokens < 0 || output_tokens < 0 || input_tokens > kMaxTokens || output_tokens > kMaxTokens) {
    throw InputError(place, fmt::format("{} input and {} output tokens; both must be within 0 and {}.", input_tokens,
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

void RequestCollector::check_order(Ticks since_start, const InputPlace& place) {
  if (since_start < previous_.value_or(Ticks{0})) {
    throw InputError(place, "this row's time is before the one ahead of it; rows must be sorted by arrival time.");
  }
  if (since_start == previous_ && options_.equal_times == EqualTimes::kError) {
    throw InputError(place,
                     "this row has the same time as the one ahead of it. Set equal_timestamps: keep to let "
                     "both arrive at once, or spread to set them evenly before the next one.");
  }
  previous_ = since_start;
}

// A request with a clipped input keeps the blocks that its remaining tokens touch, and with blocks of answers those that they
// fill: what would follow is not what followed.
void RequestCollector::take_prefix(std::int64_t input_tokens, std::int64_t output_tokens, const Request& request,
                                   std::span<const std::int64_t> blocks, const InputPlace& place) {
  if (table_.block_tokens == 0) {
    return;
  }
  const auto touched = [&](std::int64_t tokens) {
    return static_cast<std::size_t>((tokens + table_.block_tokens - 1) / table_.block_tokens);
  };
  const std::int64_t named = input_tokens + (table_.answers ? output_tokens : 0);
  if (blocks.size() > touched(named)) {
    throw InputError(place,
                     fmt::format("{} prefix blocks; {} {} tokens fill at most {} of {} tokens.", blocks.size(), named,
                                 table_.answers ? "input and output" : "input", touched(named), table_.block_tokens));
  }
  const bool cut = request.input_tokens < input_tokens;
  const std::size_t left = !table_.answers ? touched(request.input_tokens)
                           : cut           ? static_cast<std::size_t>(request.input_tokens / table_.block_tokens)
                                           : touched(std::int64_t{request.input_tokens} + request.output_tokens);
  const std::span<const std::int64_t> kept = blocks.first(std::min(blocks.size(), left));
  if (table_.prefix_blocks.size() + kept.size() > kMaxPrefixBlocks) {
    throw InputError(place, fmt::format("the trace holds more than {} prefix blocks.", kMaxPrefixBlocks));
  }
  table_.prefix_blocks.insert(table_.prefix_blocks.end(), kept.begin(), kept.end());
  table_.prefix_start.push_back(static_cast<std::int64_t>(table_.prefix_blocks.size()));
}

void RequestCollector::add(Ticks since_start, std::int64_t input_tokens, std::int64_t output_tokens,
                           const InputPlace& place, std::span<const std::int64_t> prefix_blocks) {
  ++rows_;
  check_order(since_start, place);
  const bool in_slice = since_start >= options_.slice_start &&
                        (!options_.slice_length || since_start - options_.slice_start < *options_.slice_length);
  if (!usable(input_tokens, output_tokens, place) || !in_slice) {
    return;
  }
  if (static_cast<double>(table_.trace.requests.size()) >= kMaxRequests) {
    throw InputError(place, fmt::format("the trace holds more than {:.0e} requests; take a slice of it (slice_start, "
                                        "slice_length).",
                                        kMaxRequests));
  }
  bool clipped = false;
  Request r;
  r.arrival = since_start - options_.slice_start;
  r.input_tokens = clip(input_tokens, options_.max_input_tokens, clipped);
  r.output_tokens = clip(output_tokens, options_.max_output_tokens, clipped);
  clipped_ += clipped ? 1 : 0;
  take_prefix(input_tokens, output_tokens, r, prefix_blocks, place);
  table_.trace.requests.push_back(r);
}

void RequestCollector::spread_equal_times() {
  std::vector<Request>& all = table_.trace.requests;
  Ticks gap{0};  // of the last group, when there is no next one: the gap ahead of it
  for (std::size_t first = 0; first < all.size();) {
    std::size_t end = first + 1;
    while (end < all.size() && all[end].arrival == all[first].arrival) {
      ++end;
    }
    gap = end < all.size() ? all[end].arrival - all[first].arrival : gap;
    gap = std::min(gap, Ticks::max() - all[first].arrival);
    for (std::size_t i = first; i < end; ++i) {
      all[i].arrival += part(gap, static_cast<std::int64_t>(i - first), static_cast<std::int64_t>(end - first));
    }
    first = end;
  }
}

// Divides every arrival by the scale; long double holds all 63 bits of a tick count, so a scale of 1 changes nothing.
void RequestCollector::rescale() {
  std::vector<Request>& requests = table_.trace.requests;
  double scale = options_.time_scale;
  if (options_.rate) {
    const Ticks span = requests.back().arrival - requests.front().arrival;
    refuse_if(span.count() == 0, {table_.trace.source, 0, "rate"},
              "the requests all arrive at once, so no scale gives them a rate.");
    const double recorded = static_cast<double>(requests.size() - 1) / to_seconds(span).count();
    scale = options_.rate->count() / recorded;
  }
  if (options_.rate && options_.rate_by == RateMethod::kResample) {
    table_ = resample_requests(table_, scale, options_.seed);
    return;
  }
  if (scale == 1.0) {
    return;
  }
  refuse_if(static_cast<double>(requests.back().arrival.count()) / scale > 9.2e18,
            {table_.trace.source, 0, options_.rate ? "rate" : "time_scale"},
            "the stretched trace is longer than a run can be (106 days).");
  for (Request& r : requests) {
    r.arrival = Ticks{std::llround(static_cast<long double>(r.arrival.count()) / static_cast<long double>(scale))};
  }
}

void RequestCollector::describe_losses() {
  if (dropped_ > 0) {
    table_.trace.source += fmt::format(" ({} of {} rows dropped: no input or output tokens)", dropped_, rows_);
  }
  if (clipped_ > 0) {
    table_.trace.source += fmt::format(" ({} requests clipped)", clipped_);
  }
}

RequestTable RequestCollector::finish(const std::string& source) {
  table_.trace.source = source;
  refuse_if(rows_ == 0, {source, 0, ""}, "the trace holds no request.");
  refuse_if(table_.trace.requests.empty(), {source, 0, ""},
            fmt::format("none of the {} rows is left after slicing and dropping.", rows_));
  if (options_.equal_times == EqualTimes::kSpread) {
    spread_equal_times();
  }
  rescale();
  describe_losses();
  table_.trace.validate();
  return std::move(table_);
}

}  // namespace epsim
