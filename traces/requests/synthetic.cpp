// Requests made by rule: Poisson and evenly spaced arrivals with fixed lengths.
#include <fmt/format.h>

#include <cmath>

#include "traces/requests/sources.h"

namespace epsim {

namespace {

constexpr double kMaxRequests = 1e8;  // 1.6 GB of requests; more is a slip of the pen

struct Plan {
  RequestsPerSecond rate;
  std::optional<std::int64_t> count;
  std::optional<Seconds> duration;
  std::int32_t input_tokens, output_tokens;
  bool goes_on(std::size_t made, Ticks next) const {
    return count ? static_cast<std::int64_t>(made) < *count : next < to_ticks(*duration);
  }
};

Plan read_plan(ConfigReader& in) {
  Plan p{};
  p.rate = in.required<RequestsPerSecond>("rate", Bound::kPositive);
  p.count = in.maybe<std::int64_t>("count", Bound::kPositive);
  p.duration = in.maybe<Seconds>("duration", Bound::kPositive);
  p.input_tokens = in.required<int>("input_tokens", Bound::kPositive);
  p.output_tokens = in.required<int>("output_tokens", Bound::kPositive);
  in.check(p.count.has_value() != p.duration.has_value(), p.count ? "duration" : "count",
           "state exactly one of count (a number of requests) and duration (a time).");
  const double expected = p.count ? static_cast<double>(*p.count) : p.duration->count() * p.rate.count();
  in.check(expected <= kMaxRequests, p.count ? "count" : "duration",
           fmt::format("this asks for {:.3g} requests; at most {:.0e} are allowed.", expected, kMaxRequests));
  const double length_s = p.count ? expected / p.rate.count() : p.duration->count();
  in.check(length_s < 9e6, "rate", fmt::format("the trace would last {:.3g} s; at most 9e6 s are allowed.", length_s));
  return p;
}

std::string describe(const char* kind, const Plan& p) {
  return fmt::format("{}: {}/s, {} input and {} output tokens", kind, p.rate.count(), p.input_tokens, p.output_tokens);
}

}  // namespace

RequestTrace make_poisson(ConfigReader& in, Seed seed) {
  const Plan plan = read_plan(in);
  RandomStream gaps(seed, "requests.arrivals");
  RequestTrace trace{describe("poisson", plan), {}};
  double at_s = gaps.exponential(1.0 / plan.rate.count());
  while (plan.goes_on(trace.requests.size(), to_ticks(Seconds{at_s}))) {
    trace.requests.push_back({to_ticks(Seconds{at_s}), plan.input_tokens, plan.output_tokens});
    at_s += gaps.exponential(1.0 / plan.rate.count());
  }
  in.check(!trace.requests.empty(), "duration", "no request arrives within this time at this rate; make it longer.");
  return trace;
}

RequestTrace make_constant(ConfigReader& in, Seed) {
  const Plan plan = read_plan(in);
  RequestTrace trace{describe("constant", plan), {}};
  const auto arrival = [&](std::size_t k) { return to_ticks(Seconds{static_cast<double>(k) / plan.rate.count()}); };
  for (std::size_t k = 0; plan.goes_on(k, arrival(k)); ++k) {
    trace.requests.push_back({arrival(k), plan.input_tokens, plan.output_tokens});
  }
  return trace;
}

}  // namespace epsim
