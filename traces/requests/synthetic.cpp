// Requests made by rule: Poisson, evenly spaced, gamma, on/off and daily arrivals, and the clients of a closed loop.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "traces/requests/arrivals.h"
#include "traces/requests/lengths.h"
#include "traces/requests/request_collector.h"
#include "traces/requests/sources.h"

namespace epsim {

namespace {

constexpr double kTwoPi = 6.283185307179586476925;

double read_rate(ConfigReader& in) { return in.required<RequestsPerSecond>("rate", Bound::kPositive).count(); }

// Two rates in turns.
struct OnOff {
  double rate[2], mean_s[2];  // [0] off, [1] on
  bool fixed;

  double on_share() const { return mean_s[1] / (mean_s[0] + mean_s[1]); }
  double mean_rate() const { return on_share() * rate[1] + (1.0 - on_share()) * rate[0]; }
};

OnOff read_onoff(ConfigReader& in) {
  OnOff p{};
  p.rate[1] = in.required<RequestsPerSecond>("on_rate", Bound::kPositive).count();
  p.rate[0] = in.optional("off_rate", RequestsPerSecond(0)).count();
  p.mean_s[1] = in.required<Seconds>("on_time", Bound::kPositive).count();
  p.mean_s[0] = in.required<Seconds>("off_time", Bound::kPositive).count();
  p.fixed = in.choice("turns", {"exponential", "fixed"}, "exponential") == "fixed";
  // Walking empty turns takes time; a millisecond is far below any gap between requests worth modelling.
  in.check(p.mean_s[0] + p.mean_s[1] >= 1e-3, "on_time", "on_time and off_time must add up to 1 ms at least.");
  return p;
}

// The arrivals of an on/off process, one at a time. Within a turn a Poisson process has no memory, so the gap is drawn
// anew at each change of turns.
class OnOffArrivals {
 public:
  OnOffArrivals(const OnOff& p, Seed seed)
      : p_(p), gaps_(seed, "requests.arrivals"), turns_(seed, "requests.onoff.turns") {
    on_ = p_.fixed || turns_.uniform() < p_.on_share();
    turn_end_s_ = turn_length();
  }
  double next() {
    for (;;) {
      const double rate = p_.rate[on_];
      const double candidate = rate > 0 ? at_s_ + gaps_.exponential(1.0 / rate) : turn_end_s_;
      if (candidate < turn_end_s_) {
        return at_s_ = candidate;
      }
      at_s_ = turn_end_s_;
      if (at_s_ > 9.2e6) {
        return at_s_;  // no run is as long; the caller refuses it
      }
      on_ = !on_;
      turn_end_s_ += turn_length();
    }
  }

 private:
  double turn_length() { return p_.fixed ? p_.mean_s[on_] : turns_.exponential(p_.mean_s[on_]); }

  OnOff p_;
  RandomStream gaps_, turns_;
  bool on_ = true;
  double at_s_ = 0.0, turn_end_s_ = 0.0;
};

// A rate that follows the clock.
struct DailyRate {
  std::vector<double> hourly;  // requests per second; empty: the sinusoid
  double rate = 0, amplitude = 0, period_s = 0, peak_s = 0, start_s = 0;

  double at(double t_s) const {
    const double clock_s = t_s + start_s;
    if (hourly.empty()) {
      return rate * (1.0 + amplitude * std::cos(kTwoPi * (clock_s - peak_s) / period_s));
    }
    return hourly[static_cast<std::size_t>(std::fmod(clock_s / 3600.0, 24.0))];
  }
  double mean() const {
    double sum = 0;
    for (const double r : hourly) {
      sum += r;
    }
    return hourly.empty() ? rate : sum / 24.0;
  }
  double peak() const {
    return hourly.empty() ? rate * (1.0 + amplitude) : *std::max_element(hourly.begin(), hourly.end());
  }
};

DailyRate read_daily_rate(ConfigReader& in) {
  DailyRate r;
  r.start_s = in.optional("start_at", Seconds{0}).count();
  in.check(r.start_s < 86400, "start_at", "a time of day is below 24h.");
  if (const auto hourly = in.maybe<std::vector<double>>("hourly_rates")) {
    r.hourly = *hourly;
    in.check(r.hourly.size() == 24 && r.peak() > 0, "hourly_rates",
             "24 rates in requests per second are needed, not all of them 0.");
    return r;
  }
  r.rate = read_rate(in);
  r.amplitude = in.required<double>("amplitude");
  in.check(r.amplitude <= 1.0, "amplitude", "this is a share of the mean rate, within 0 and 1.");
  r.period_s = in.optional("period", Seconds{86400}, Bound::kPositive).count();
  r.peak_s = in.optional("peak_at", Seconds{14 * 3600}).count();
  return r;
}

}  // namespace

RequestTable make_poisson(ConfigReader& in, Seed seed) {
  const double rate = read_rate(in);
  RandomStream gaps(seed, "requests.arrivals");
  double at_s = 0.0;
  return generate(in, seed, read_extent(in, rate, "rate"), fmt::format("poisson: {}/s", rate),
                  [&] { return at_s += gaps.exponential(1.0 / rate); });
}

RequestTable make_constant(ConfigReader& in, Seed seed) {
  const double rate = read_rate(in);
  std::int64_t k = 0;
  return generate(in, seed, read_extent(in, rate, "rate"), fmt::format("constant: {}/s", rate),
                  [&] { return static_cast<double>(k++) / rate; });
}

RequestTable make_gamma(ConfigReader& in, Seed seed) {
  const double rate = read_rate(in);
  const double burstiness = in.required<double>("burstiness", Bound::kPositive);
  // Below 0.001 (a coefficient of variation above 30) double precision runs out of small gaps.
  in.check(burstiness >= 1e-3 && burstiness <= 1e6, "burstiness", "this must be within 0.001 and 1e6.");
  const GapRule rule{GapRule::Family::kGamma, burstiness};
  RandomStream gaps(seed, "requests.arrivals");
  double at_s = -1.0;
  return generate(in, seed, read_extent(in, rate, "rate"), fmt::format("gamma: {}/s, burstiness {}", rate, burstiness),
                  [&] {
                    at_s = at_s < 0 ? rule.first(gaps) / rate : at_s + rule.draw(gaps) / rate;
                    return at_s;
                  });
}

RequestTable make_onoff(ConfigReader& in, Seed seed) {
  const OnOff p = read_onoff(in);
  OnOffArrivals arrivals(p, seed);
  return generate(in, seed, read_extent(in, p.mean_rate(), "on_rate"),
                  fmt::format("onoff: {}/s for {} s, {}/s for {} s", p.rate[1], p.mean_s[1], p.rate[0], p.mean_s[0]),
                  [&] { return arrivals.next(); });
}

RequestTable make_diurnal(ConfigReader& in, Seed seed) {
  const DailyRate daily = read_daily_rate(in);
  RandomStream gaps(seed, "requests.arrivals");
  double at_s = 0.0;
  // Thinning (Lewis and Shedler 1979): candidates at the peak rate, each kept with the chance rate(t) / peak.
  return generate(in, seed, read_extent(in, daily.mean(), "rate"),
                  fmt::format("diurnal: mean {:.4g}/s, peak {:.4g}/s", daily.mean(), daily.peak()), [&] {
                    do {
                      at_s += gaps.exponential(1.0 / daily.peak());
                    } while (gaps.uniform() * daily.peak() >= daily.at(at_s) && at_s < 9.2e6);
                    return at_s;
                  });
}

RequestTable make_closed_loop(ConfigReader& in, Seed seed) {
  RequestTable table;
  ClosedLoop& loop = table.trace.closed_loop;
  loop.concurrency = in.required<int>("concurrency", Bound::kPositive);
  loop.warmup = in.optional<std::int64_t>("warmup", 0);
  loop.ramp = to_ticks(in.optional("ramp", Seconds{0}));
  const auto count = in.required<std::int64_t>("count", Bound::kPositive);
  in.check(static_cast<double>(count) + static_cast<double>(loop.warmup) <= kMaxRequests, "count",
           fmt::format("at most {:.0e} requests are allowed, warm-up included.", kMaxRequests));
  for (const char* key : {"rate", "duration"}) {
    in.check(!in.has(key), key,
             "the clients of a closed loop send at the rate at which they are answered; state "
             "`concurrency` and `count`.");
  }
  const LengthSampler lengths = read_lengths(in, seed);
  RandomStream draws(seed, "requests.lengths");
  std::vector<Request>& requests = table.trace.requests;
  for (std::int64_t i = 0; i < count; ++i) {
    const RequestLengths n = lengths.draw(draws);
    requests.push_back({Ticks{}, n.input_tokens, n.output_tokens});
  }
  const Request first = requests.front();
  requests.insert(requests.begin(), static_cast<std::size_t>(loop.warmup), first);
  table.trace.source = fmt::format("closed loop: {} clients, {} requests after {} of warm-up, {}", loop.concurrency,
                                   count, loop.warmup, lengths.description());
  return table;
}

}  // namespace epsim
