#include "traces/requests/arrivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "traces/requests/lengths.h"
#include "traces/requests/request_collector.h"

namespace epsim {
Extent read_extent(ConfigReader& in, double rate, const std::string& rate_key) {
  Extent e;
  e.count = in.maybe<std::int64_t>(kExtentKeys["count"]);
  e.duration = in.maybe<Seconds>(kExtentKeys["duration"]);
  in.check(e.count.has_value() != e.duration.has_value(), e.count ? "duration" : "count",
           "state exactly one of count (a number of requests) and duration (a time).");
  const double expected = e.count ? static_cast<double>(*e.count) : e.duration->count() * rate;
  in.check(expected <= kMaxRequests, e.count ? "count" : "duration",
           fmt::format("this asks for {:.3g} requests; at most {:.0e} are allowed.", expected, kMaxRequests));
  const double length_s = e.count ? expected / rate : e.duration->count();
  in.check(length_s < 9e6, rate_key,
           fmt::format("the trace would last {:.3g} s; at most 9e6 s are allowed.", length_s));
  return e;
}

double GapRule::draw(RandomStream& random) const {
  switch (family) {
    case Family::kGamma:
      return random.gamma(shape, 1.0 / shape);
    case Family::kWeibull:  // scale x E^(1/shape), E exponential; its mean is scale x Gamma(1 + 1/shape)
      return std::pow(random.exponential(1.0), 1.0 / shape) / std::tgamma(1.0 + 1.0 / shape);
    default:
      return random.exponential(1.0);
  }
}

// An arbitrary instant falls into a gap with a chance in proportion to its length, and then anywhere in it: a uniform
// share of a gap drawn by length-biased probability. Length bias adds 1 to a gamma's shape; for a Weibull, whose
// (gap/scale)^shape is exponential, it turns that exponential into a gamma variate of shape 1 + 1/shape.
double GapRule::first(RandomStream& random) const {
  switch (family) {
    case Family::kGamma: {
      const double gap = random.gamma(shape + 1.0, 1.0 / shape);
      return gap * random.uniform();
    }
    case Family::kWeibull: {
      const double power = random.gamma(1.0 + 1.0 / shape, 1.0);
      return std::pow(power, 1.0 / shape) / std::tgamma(1.0 + 1.0 / shape) * random.uniform();
    }
    default:
      return random.exponential(1.0);
  }
}

void repeat_prompts(ConfigReader& in, std::size_t first, RequestTable& table) {
  const auto distinct = in.maybe<std::int64_t>(kPromptKeys["distinct_prompts"]);
  in.check(distinct || !in.has("block_tokens"), "block_tokens", "give distinct_prompts; other prompts share nothing.");
  if (!distinct) {
    return;
  }
  const int block = in.read<int>(kPromptKeys["block_tokens"]);
  std::vector<Request>& requests = table.trace.requests;
  const auto period = static_cast<std::size_t>(*distinct);
  std::vector<std::int64_t> first_block{0};  // of each prompt
  table.block_tokens = block;
  table.prefix_start.push_back(0);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::size_t prompt = i < first ? 0 : (i - first) % period;
    requests[i].input_tokens = requests[std::min(i, first + prompt)].input_tokens;
    const std::int64_t blocks = requests[i].input_tokens / block;
    if (prompt + 1 == first_block.size()) {
      first_block.push_back(first_block.back() + blocks);
    }
    for (std::int64_t b = 0; b < blocks; ++b) {
      table.prefix_blocks.push_back(first_block[prompt] + b);
    }
    table.prefix_start.push_back(std::ssize(table.prefix_blocks));
    in.check(table.prefix_blocks.size() < kMaxPrefixBlocks, "distinct_prompts",
             "the trace gets too many prefix blocks; ask for fewer or shorter requests.");
  }
}

RequestTable generate(ConfigReader& in, Seed seed, const Extent& extent, const std::string& kind,
                      const std::function<double()>& next_s) {
  const LengthSampler lengths = read_lengths(in, seed);
  RandomStream draws(seed, "requests.lengths");
  RequestTable table;
  table.trace.source = fmt::format("{}, {}", kind, lengths.description());
  std::vector<Request>& requests = table.trace.requests;
  for (;;) {
    const double at_s = next_s();
    if (at_s > 9.2e6) {  // beyond what a tick count holds; a duration ends before
      in.check(!extent.count, "count", "the trace gets longer than a run can be (106 days).");
      break;
    }
    const Ticks at = to_ticks(Seconds{at_s});
    if (!extent.goes_on(requests.size(), at)) {
      break;
    }
    in.check(static_cast<double>(requests.size()) < kMaxRequests, "duration", "the trace gets too many requests.");
    const RequestLengths n = lengths.draw(draws);
    requests.push_back({at, n.input_tokens, n.output_tokens});
  }
  in.check(!requests.empty(), "duration", "no request arrives within this time at this rate; make it longer.");
  repeat_prompts(in, 0, table);
  return table;
}

}  // namespace epsim
