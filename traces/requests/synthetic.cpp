// Requests made by rule: Poisson, evenly spaced, gamma, on/off and daily arrivals, and the clients of a closed loop.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "traces/requests/arrivals.h"
#include "traces/requests/lengths.h"
#include "traces/requests/read_requests.h"
#include "traces/requests/request_collector.h"

namespace epsim {

namespace {

constexpr double kTwoPi = 6.283185307179586476925;

constexpr KeyTable kRateKeys =
    KeyTable({{"rate", key::request_rate(kRateRange), key::kRequired, "Mean arrival rate."}}) + kExtentKeys +
    kPromptKeys + kLengthKeys;
// Below 0.001 (a coefficient of variation above 30) double precision runs out of small gaps.
constexpr KeyTable kGammaKeys = KeyTable({{"burstiness", key::number(Range::between(1e-3, 1e6)), key::kRequired,
                                           "Shape of the gamma distribution: 1 is Poisson, lower is burstier."}}) +
                                kRateKeys;
enum class Turns { kExponential, kFixed };

}  // namespace

template <>
inline constexpr auto kNames<Turns> = choice<Turns>({{"exponential", Turns::kExponential}, {"fixed", Turns::kFixed}});

namespace {

constexpr KeyTable kOnOffKeys =
    KeyTable({
        {"on_rate", key::request_rate(kRateRange), key::kRequired, "Arrival rate in a burst."},
        {"off_rate", key::request_rate(at_most(kMostRate)), key::is(RequestsPerSecond(0)),
         "Arrival rate between bursts."},
        {"on_time", key::time(Bound::kPositive), key::kRequired, "Length of a burst."},
        {"off_time", key::time(Bound::kPositive), key::kRequired, "Time between bursts."},
        {"turns", key::one_of<Turns>(), key::is(Turns::kExponential), "Whether those lengths are means or exact."},
    }) +
    kExtentKeys + kPromptKeys + kLengthKeys;
constexpr KeyTable kDiurnalKeys =
    KeyTable({
        {"rate", key::request_rate(kRateRange), key::by("required without hourly_rates"), "Mean arrival rate."},
        {"hourly_rates", key::numbers(), key::kNone,
         "24 arrival rates in requests per second, one per hour of the day."},
        {"amplitude", key::number(kShare), key::by("required without hourly_rates"),
         "Swing of the rate as a share of its mean."},
        {"period", key::time(Bound::kPositive), key::is(Seconds(86400)), "Length of the cycle."},
        {"peak_at", key::time(), key::is(Seconds(14 * 3600)), "Time of day of the highest rate."},
        {"start_at", key::time(), key::is(Seconds(0)), "Time of day at which the run starts."},
    }) +
    kExtentKeys + kPromptKeys + kLengthKeys;
constexpr KeyTable kClosedLoopKeys =
    KeyTable({
        {"concurrency", key::whole(Bound::kPositive), key::kRequired, "Requests in flight."},
        {"count", key::whole(Bound::kPositive), key::kRequired, "Number of requests."},
        {"warmup", key::whole(), key::is(0),
         "Requests that run first, end before the others start, and are left out of the figures."},
        {"ramp", key::time(), key::is(Seconds(0)), "Time over which clients start."},
    }) +
    kPromptKeys + kLengthKeys;

double read_rate(ConfigReader& in) { return in.read<RequestsPerSecond>(kRateKeys["rate"]).count(); }

// Two rates in turns, of mean times of a two-state Markov process that starts in its stationary state; or fixed, where
// the first turn is on, from time 0.
struct OnOff {
  double rate[2], mean_s[2];  // [0] off, [1] on
  bool fixed;

  double on_share() const { return mean_s[1] / (mean_s[0] + mean_s[1]); }
  double mean_rate() const { return on_share() * rate[1] + (1.0 - on_share()) * rate[0]; }
};

OnOff read_onoff(ConfigReader& in) {
  OnOff p{};
  p.rate[1] = in.read<RequestsPerSecond>(kOnOffKeys["on_rate"]).count();
  p.rate[0] = in.read<RequestsPerSecond>(kOnOffKeys["off_rate"]).count();
  p.mean_s[1] = in.read<Seconds>(kOnOffKeys["on_time"]).count();
  p.mean_s[0] = in.read<Seconds>(kOnOffKeys["off_time"]).count();
  p.fixed = in.read<Turns>(kOnOffKeys["turns"]) == Turns::kFixed;
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

// A rate that follows the clock: of the hours of a day, or rate x (1 + amplitude cos(2 pi (t - peak_at) / period)).
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
  r.start_s = in.read<Seconds>(kDiurnalKeys["start_at"]).count();
  in.check(r.start_s < 86400, "start_at", "a time of day is below 24h.");
  if (const auto hourly = in.maybe<std::vector<double>>(kDiurnalKeys["hourly_rates"])) {
    r.hourly = *hourly;
    in.check(r.hourly.size() == 24 && r.peak() > 0, "hourly_rates",
             "24 rates in requests per second are needed, not all of them 0.");
    return r;
  }
  r.rate = in.read<RequestsPerSecond>(kDiurnalKeys["rate"]).count();
  r.amplitude = in.read<double>(kDiurnalKeys["amplitude"]);
  r.period_s = in.read<Seconds>(kDiurnalKeys["period"]).count();
  r.peak_s = in.read<Seconds>(kDiurnalKeys["peak_at"]).count();
  return r;
}

// Independent arrivals: exponential gaps.
RequestTable make_poisson(ConfigReader& in, Seed seed) {
  const double rate = read_rate(in);
  RandomStream gaps(seed, "requests.arrivals");
  double at_s = 0.0;
  return generate(in, seed, read_extent(in, rate, "rate"), fmt::format("poisson: {}/s", rate),
                  [&] { return at_s += gaps.exponential(1.0 / rate); });
}

// The k-th request (k = 0, 1, ...) arrives at k / rate.
RequestTable make_constant(ConfigReader& in, Seed seed) {
  const double rate = read_rate(in);
  std::int64_t k = 0;
  return generate(in, seed, read_extent(in, rate, "rate"), fmt::format("constant: {}/s", rate),
                  [&] { return static_cast<double>(k++) / rate; });
}

// `burstiness` b is the shape of the gaps, as in vLLM's bench serve: coefficient of variation 1/sqrt(b); 1 = Poisson,
// below 1 = bursts, above 1 = more even. The process is stationary from time 0 on, so that the expected number of
// requests is rate x duration for any b.
RequestTable make_gamma(ConfigReader& in, Seed seed) {
  const double rate = read_rate(in);
  const double burstiness = in.read<double>(kGammaKeys["burstiness"]);
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

// Clients that each wait for an answer before they send the next request, as sglang.bench_serving and vllm bench serve
// do with --max-concurrency and InferenceX always: all prompts are there at the start, `concurrency` are in flight,
// and the next goes when one has ended; its arrival is when it is sent. The prompts of the warm-up come first, and are
// as long as the first that counts; the clients begin evenly over `ramp`.
RequestTable make_closed_loop(ConfigReader& in, Seed seed) {
  RequestTable table;
  ClosedLoop& loop = table.trace.closed_loop;
  loop.concurrency = in.read<int>(kClosedLoopKeys["concurrency"]);
  loop.warmup = in.read<std::int64_t>(kClosedLoopKeys["warmup"]);
  loop.ramp = to_ticks(in.read<Seconds>(kClosedLoopKeys["ramp"]));
  const auto count = in.read<std::int64_t>(kClosedLoopKeys["count"]);
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
  repeat_prompts(in, static_cast<std::size_t>(loop.warmup), table);
  table.trace.source = fmt::format("closed loop: {} clients, {} requests after {} of warm-up, {}", loop.concurrency,
                                   count, loop.warmup, lengths.description());
  return table;
}

}  // namespace

extern const RequestSource kPoissonSource{
    "poisson", "independent arrivals at a mean rate", make_poisson, kRateKeys, true, "rate"};
extern const RequestSource kConstantSource{"constant", "evenly spaced arrivals", make_constant, kRateKeys, true,
                                           "rate"};
extern const RequestSource kGammaSource{
    "gamma", "gamma-distributed gaps with a burstiness, as vLLM's bench serve", make_gamma, kGammaKeys, true, "rate"};
extern const RequestSource kOnOffSource{"onoff", "Poisson arrivals at two rates in turns: bursts and quiet", make_onoff,
                                        kOnOffKeys, true};
extern const RequestSource kDiurnalSource{"diurnal",
                                          "Poisson arrivals whose rate follows the hour of the day",
                                          make_diurnal,
                                          kDiurnalKeys,
                                          true,
                                          "rate",
                                          {},
                                          [](ConfigReader& in) {
                                            const DailyRate daily = read_daily_rate(in);
                                            return RateRange{daily.mean(), daily.peak()};
                                          }};
extern const RequestSource kClosedLoopSource{
    "closed_loop", "clients with one request in flight each, as benchmarks with --max-concurrency", make_closed_loop,
    kClosedLoopKeys};

}  // namespace epsim
