#include "sim/study/load_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/cluster/run_series.h"
#include "sim/core/error.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/core/statistics.h"

namespace epsim {
namespace {

constexpr int kBatches = 40;  // of the stability check: as few requests as may be measured, and even halves
// A measured part may be no longer than a few of the times over which a queue is alike. Four waves, 0.4 x kBatches^(2/3),
// would then take its ups and downs for a trend half as often again; two would miss many that are (drift_test.cpp).
constexpr int kTrendWaves = 3;
constexpr int kStays = 10;                       // parts of the measured requests, the first and last of which compare
constexpr std::size_t kLeast = 40;               // measured requests
constexpr double kFillings = 2;                  // times the number in the system that warm up at least
constexpr double kMostFilling = 0.5;             // of the requests, at most
constexpr std::size_t kAlone = 256;              // requests that tell the idle TTFT
constexpr Ticks kApart{10'000'000'000'000'000};  // 10,000 s between them; 256 of these are 30 days of simulated time

double seconds(Ticks t) { return to_seconds(t).count(); }

// The requests that count, [begin, end), and the time in which they are due. A turn of a conversation may arrive later, when the
// answer before it has come: what the service owes goes by what is due, latencies count from the arrival.
struct MeasuredPart {
  std::size_t begin = 0, end = 0;
  Ticks from{}, to{};
  std::size_t size() const { return end - begin; }
  double span_s() const { return seconds(to - from); }
};

MeasuredPart whole_of(const RunResult& run) {
  const std::size_t n = run.requests.size();
  const MeasuredPart all{0, n, run.due_of(0), run.due_of(n - 1)};
  refuse_if(all.to <= all.from, "requests", "all requests arrive at once; a rate needs arrivals apart in time.");
  return all;
}

MeasuredPart measured_part(const RunResult& run, std::size_t first, const GoodputOptions& options) {
  const std::size_t requests = run.requests.size();
  const auto n = static_cast<double>(requests - first);
  MeasuredPart part;
  part.begin = first + static_cast<std::size_t>(n * options.warmup_share);
  part.end = requests - static_cast<std::size_t>(n * options.drain_share);
  refuse_if(part.end < part.begin + kLeast, "requests",
            fmt::format("{} requests leave {} between warm-up and drain; at least {} are needed to recognize a "
                        "steady state from one that is not.",
                        requests - first, part.end > part.begin ? part.end - part.begin : 0, kLeast));
  part.from = run.due_of(part.begin);
  part.to = run.due_of(std::min(part.end, requests - 1));
  refuse_if(part.to <= part.from, "requests",
            "all measured requests arrive at once; a rate needs arrivals apart in time.");
  return part;
}

double mean_of(std::span<const double> values) {
  RunningStats stats;
  for (const double v : values) {
    stats.add(v);
  }
  return stats.mean();
}

// Mean number of requests in the system in each of kBatches equal spans of the measured time. `since`: from when a request counts.
template <class Since>
std::vector<double> concurrency_by_batch(const RunResult& run, const MeasuredPart& part, Since since) {
  std::vector<double> out(kBatches, 0.0);
  const double from = seconds(part.from), span = part.span_s() / kBatches;
  for (std::size_t i = 0; i < run.requests.size(); ++i) {
    const double begin = (seconds(since(i)) - from) / span, end = (seconds(run.requests[i].finished) - from) / span;
    const int last = std::min(kBatches - 1, static_cast<int>(std::floor(std::min(end, 1.0 * kBatches))));
    for (int b = std::max(0, static_cast<int>(std::floor(std::min(begin, 1.0 * kBatches)))); b <= last; ++b) {
      out[static_cast<std::size_t>(b)] += std::max(0.0, std::min(end, b + 1.0) - std::max(begin, 1.0 * b));
    }
  }
  return out;
}

// With the turns that are due.
double outstanding(const RunResult& run, const MeasuredPart& part) {
  return mean_of(concurrency_by_batch(run, part, [&](std::size_t i) { return run.due_of(i); }));
}

// Leaves out what came before the system had filled, too: twice as many requests as are in it, or are due. Where requests stay for
// long, a share of the trace would leave in times at which the system is emptier and faster than it will be.
MeasuredPart filled_part(const RunResult& run, std::size_t first, MeasuredPart part) {
  const double in_system = outstanding(run, part);
  const double filling =
      std::min(kFillings * in_system, kMostFilling * static_cast<double>(run.requests.size() - first));
  const auto begin = std::min(first + static_cast<std::size_t>(filling), part.end - kLeast);
  if (begin > part.begin && run.due_of(begin) < part.to) {
    part.begin = begin;
    part.from = run.due_of(begin);
  }
  return part;
}

MeasuredPart counted_part(const RunResult& run, std::size_t first, const GoodputOptions& options) {
  return options.count_all ? whole_of(run) : filled_part(run, first, measured_part(run, first, options));
}

std::vector<double> ttft_by_batch(std::span<const RequestRecord> measured) {
  std::vector<double> out;
  for (std::size_t b = 0; b < kBatches; ++b) {
    RunningStats batch;
    for (std::size_t i = b * measured.size() / kBatches; i < (b + 1) * measured.size() / kBatches; ++i) {
      batch.add(seconds(measured[i].first_token - measured[i].arrival));
    }
    out.push_back(batch.mean());
  }
  return out;
}

// The rate at which the measured requests end: that at which they are due, unless the last ones end later after that than the
// first. What ends within the measured time instead hangs on how many happen to be in the system at its start and its
// end. Where the last ones stay shorter, the trace has run out: nothing is completed faster than it arrives for long.
double completed_rate(const RunResult& run, const MeasuredPart& part) {
  const std::size_t batch = part.size() / kStays;
  const auto stay = [&](std::size_t first) {
    RunningStats out;
    for (std::size_t i = first; i < first + batch; ++i) {
      out.add(seconds(run.requests[i].finished - run.due_of(i)));
    }
    return out.mean();
  };
  // The middles of the first and the last part are all but one part apart.
  const double longer = (stay(part.end - batch) - stay(part.begin)) * kStays / (kStays - 1);
  return static_cast<double>(part.size()) / (part.span_s() + std::max(0.0, longer));
}

// As benchmarks count: requests over the time from the first arrival to the last answer.
double rate_to_last_answer(std::span<const RequestRecord> requests) {
  Ticks last{};
  for (const RequestRecord& r : requests) {
    last = std::max<Ticks>(last, r.finished);
  }
  return static_cast<double>(requests.size()) / seconds(last - requests.front().arrival);
}

// In seconds; 0 where the request has none.
double latency_of(const RequestRecord& r, LatencyMetric metric) {
  switch (metric) {
    case LatencyMetric::kTtft:
      return seconds(r.first_token - r.arrival);
    case LatencyMetric::kTpot:
      return r.output_tokens > 1 ? seconds(r.finished - r.first_token) / (r.output_tokens - 1) : 0;
    case LatencyMetric::kE2e:
      return seconds(r.finished - r.arrival);
  }
  return 0;
}

Summary summary_of(const std::vector<double>& values) {
  Summary out = summarize(values);
  out.mean = mean_of(values);
  return out;
}

void add_latencies(LoadPoint& probe, std::span<const RequestRecord> measured) {
  std::vector<double> ttft, tpot, e2e;
  for (const RequestRecord& r : measured) {
    ttft.push_back(latency_of(r, LatencyMetric::kTtft));
    e2e.push_back(latency_of(r, LatencyMetric::kE2e));
    if (r.output_tokens > 1) {
      tpot.push_back(latency_of(r, LatencyMetric::kTpot));
    }
  }
  probe.ttft_s = summarize(std::move(ttft));
  probe.tpot_s = summary_of(tpot);
  probe.e2e_s = summary_of(e2e);
}

// One condition of an SLO.
struct Condition {
  double value = 0;       // seconds, or a share of requests; where no request is late, half a request's, since excess()
                          // takes the logarithm
  double allowed = 0;     // the same
  double half_width = 0;  // of `value`'s 95 % interval
  int term = 0;
  double measured = value;  // the share itself: 0 where no request is late

  double excess() const { return std::log(value / allowed); }
  bool holds() const { return value <= allowed; }
  bool decided() const { return std::abs(value - allowed) > half_width; }
};

constexpr int kIntervalBatches = 20;

Condition mean_condition(const std::vector<double>& values, Seconds bound, int term) {
  return {mean_of(values), bound.count(), batch_means_half_width(values, kIntervalBatches), term};
}

// `missed`: 1 where a request is over its bound, 0 elsewhere. Where none or few are, batches show no spread: of n
// requests 3 / n may exceed it at 95 % (the rule of three). No excess is told apart from that of half a request.
Condition share_condition(const std::vector<double>& missed, double allowed, int term) {
  const auto n = static_cast<double>(std::max<std::size_t>(1, missed.size()));
  const double share = mean_of(missed);
  return {std::max(share, 0.5 / n), allowed, std::max(batch_means_half_width(missed, kIntervalBatches), 3.0 / n), term,
          share};
}

// Whether a request exceeds a bound; a failed one exceeds all. Nothing where it has no such latency.
std::optional<bool> misses(const RequestRecord& r, const SloTerm& term) {
  if (r.state == RequestState::kFailed) {
    return true;
  }
  if (term.metric == LatencyMetric::kTpot && r.output_tokens <= 1) {
    return std::nullopt;
  }
  return latency_of(r, term.metric) > term.bound.count();
}

Condition term_condition(std::span<const RequestRecord> measured, const SloTerm& term, int index) {
  std::vector<double> values;
  for (const RequestRecord& r : measured) {
    const std::optional<bool> missed = misses(r, term);
    if (term.stat != LatencyStat::kMean) {
      if (missed) {
        values.push_back(*missed ? 1 : 0);
      }
    } else if (missed && r.state != RequestState::kFailed) {
      values.push_back(latency_of(r, term.metric));
    }
  }
  return term.stat == LatencyStat::kMean ? mean_condition(values, term.bound, index)
                                         : share_condition(values, term.allowed_share(), index);
}

// All per-request bounds together. Its term is the one that most requests miss.
Condition attainment_condition(std::span<const RequestRecord> measured, const Slo& slo) {
  std::vector<double> missed;
  std::vector<std::int64_t> by_term(slo.terms.size(), 0);
  for (const RequestRecord& r : measured) {
    bool any = false;
    for (std::size_t t = 0; t < slo.terms.size(); ++t) {
      if (slo.terms[t].stat == LatencyStat::kEach && misses(r, slo.terms[t]).value_or(false)) {
        any = true;
        ++by_term[t];
      }
    }
    missed.push_back(any ? 1 : 0);
  }
  std::size_t most = by_term.size();
  for (std::size_t t = 0; t < by_term.size(); ++t) {
    if (slo.terms[t].stat == LatencyStat::kEach && (most == by_term.size() || by_term[t] > by_term[most])) {
      most = t;
    }
  }
  return share_condition(missed, 1 - slo.attainment, static_cast<int>(most));
}

SloScore score_of(std::span<const RequestRecord> measured, const Slo& slo) {
  std::vector<Condition> conditions;
  SloScore out;
  if (slo.per_request()) {
    conditions.push_back(attainment_condition(measured, slo));
    out.attainment = 1 - conditions.front().measured;
  }
  for (std::size_t t = 0; t < slo.terms.size(); ++t) {
    if (slo.terms[t].stat != LatencyStat::kEach) {
      conditions.push_back(term_condition(measured, slo.terms[t], static_cast<int>(t)));
    }
  }
  const Condition& worst = *std::max_element(conditions.begin(), conditions.end(),
                                             [](const auto& a, const auto& b) { return a.excess() < b.excess(); });
  for (std::size_t t = 0; t < slo.terms.size(); ++t) {
    const Condition c = term_condition(measured, slo.terms[t], static_cast<int>(t));
    const bool each = slo.terms[t].stat == LatencyStat::kEach;
    out.terms.push_back({c.measured, each ? 1 - slo.attainment : c.allowed, c.half_width});
  }
  out.excess = worst.excess();
  out.excess_half_width = worst.half_width / worst.value;
  out.limit = worst.term;
  out.holds = worst.holds();
  const auto certain = [](const Condition& c) { return c.decided(); };
  const auto missed = [](const Condition& c) { return c.decided() && !c.holds(); };
  out.decided = out.holds ? std::all_of(conditions.begin(), conditions.end(), certain)
                          : std::any_of(conditions.begin(), conditions.end(), missed);
  return out;
}

}  // namespace

double arrival_rate(const RequestTrace& trace) {
  trace.validate();
  const std::size_t first = trace.steady() > 1 ? trace.ramp : 0;
  const Ticks span = trace.requests.back().arrival - trace.requests[first].arrival;
  refuse_if(span <= Ticks{}, {trace.source, 0, "requests"},
            "all requests arrive at once, so their arrivals cannot be scaled to a rate.");
  return static_cast<double>(trace.requests.size() - first - 1) / seconds(span);
}

RequestTrace at_rate(const RequestTrace& trace, double rate) {
  const double scale = arrival_rate(trace) / rate;
  RequestTrace out = trace;
  for (Request& r : out.requests) {
    r.arrival = to_ticks(to_seconds(r.arrival - trace.requests.front().arrival) * scale);
  }
  return out;
}

RequestTrace first_of(const RequestTrace& trace, std::size_t count) {
  std::vector<std::size_t> positions(std::min(count + trace.ramp, trace.requests.size()));
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  return trace.select(positions);
}

RequestTrace busiest_of(const RequestTrace& trace, std::size_t count) {
  const std::vector<Request>& all = trace.requests;
  count = std::min(count, all.size());
  const auto takes = [&](std::size_t first) { return all[first + count - 1].arrival - all[first].arrival; };
  std::size_t best = 0;
  for (std::size_t first = 1; first + count <= all.size(); ++first) {
    best = takes(first) < takes(best) ? first : best;
  }
  std::vector<std::size_t> positions(count);
  std::iota(positions.begin(), positions.end(), best);
  RequestTrace out = trace.select(positions);
  for (Request& r : out.requests) {
    r.arrival -= all[best].arrival;
  }
  return out;
}

RequestTrace as_burst(const RequestTrace& trace) {
  RequestTrace out = trace;
  out.turn_before.clear();
  for (Request& r : out.requests) {
    r.arrival = Ticks{};
  }
  return out;
}

RequestTrace after_backlog(const RequestTrace& trace, std::size_t backlog, double rate) {
  const std::size_t others = trace.requests.size() - backlog;
  std::vector<std::size_t> positions(trace.requests.size());
  std::iota(positions.begin(), positions.begin() + static_cast<std::ptrdiff_t>(backlog), others);
  std::iota(positions.begin() + static_cast<std::ptrdiff_t>(backlog), positions.end(), std::size_t{0});
  RequestTrace out = trace.select(positions);
  std::fill_n(out.turn_before.begin(), out.turn_before.empty() ? 0 : backlog, -1);
  const RequestTrace arrivals = at_rate(first_of(trace, others), rate);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    out.requests[i].arrival = i < backlog ? Ticks{} : arrivals.requests[i - backlog].arrival;
  }
  return out;
}

RequestTrace one_at_a_time(const RequestTrace& trace) {
  const std::size_t n = trace.requests.size(), wanted = std::min(n, kAlone);
  std::vector<std::size_t> positions(wanted);
  for (std::size_t i = 0; i < wanted; ++i) {
    positions[i] = i * n / wanted;
  }
  RequestTrace out = trace.select(positions);
  out.turn_before.clear();
  for (std::size_t i = 0; i < wanted; ++i) {
    out.requests[i].arrival = kApart * static_cast<std::int64_t>(i);
    out.requests[i].output_tokens = 1;
  }
  out.drop_unfilled_blocks();
  return out;
}

double idle_ttft_s(const RunResult& run) {
  RunningStats ttft;
  for (std::size_t i = 0; i < run.requests.size(); ++i) {
    const RequestRecord& r = run.requests[i];
    if (i + 1 < run.requests.size() && r.finished > run.requests[i + 1].arrival) {
      throw RunFailed(
          fmt::format("request {} takes more than 10,000 s to its first token although it is alone.", i + 1));
    }
    ttft.add(seconds(r.first_token - r.arrival));
  }
  return ttft.mean();
}

double saturation_rate(const RunResult& run, const GoodputOptions& options) {
  std::vector<Ticks> ends = mapped(run.requests, [](const RequestRecord& r) -> Ticks { return r.finished; });
  std::sort(ends.begin(), ends.end());
  const auto n = static_cast<double>(ends.size());
  const auto first = static_cast<std::size_t>(n * options.warmup_share);
  const std::size_t last = ends.size() - 1 - static_cast<std::size_t>(n * options.drain_share);
  if (last <= first || ends[last] <= ends[first]) {
    // All of them fit in at once and are alike, so they end together: the burst as a whole tells the rate.
    return n / seconds(ends.back());
  }
  return static_cast<double>(last - first) / seconds(ends[last] - ends[first]);
}

bool drifts(std::span<const double> series, double max_drift) {
  const std::size_t half = series.size() / 2;
  const double first = mean_of(series.first(half)), second = mean_of(series.last(half));
  return second - first > max_drift * first && trend_t(series, kTrendWaves) > student_t_95(kTrendWaves);
}

double measured_busy(const RunResult& run, const GoodputOptions& options) {
  const MeasuredPart part = counted_part(run, run.ramp, options);
  return stepping_share(run.series, run.gpus, part.from, part.to);
}

LoadPoint measure_load_point(const RunResult& run, double rate, const GoodputOptions& options, const Backlog& backlog) {
  const std::span<const RequestRecord> all = run.requests;
  const std::size_t first = backlog.requests + backlog.meanwhile + run.ramp;
  const MeasuredPart part = counted_part(run, first, options);
  const std::span<const RequestRecord> measured = all.subspan(part.begin, part.size());
  LoadPoint probe;
  probe.offered = rate;
  probe.measured_offered = static_cast<double>(part.size()) / part.span_s();
  probe.completed = options.count_all ? rate_to_last_answer(all) : completed_rate(run, part);
  add_latencies(probe, measured);
  const std::vector<double> in_system =
      concurrency_by_batch(run, part, [&](std::size_t i) -> Ticks { return all[i].arrival; });
  probe.concurrency = mean_of(in_system);
  probe.outstanding = run.due.empty() ? probe.concurrency : outstanding(run, part);
  // Where requests stay for longer than is measured, nothing can be told of a steady state.
  const auto steady = [&](std::vector<double> series) {
    bool moves = drifts(series, options.max_drift);
    std::reverse(series.begin(), series.end());
    moves = moves || (backlog.requests > 0 && drifts(series, options.max_drift));
    return !moves;
  };
  probe.stable =
      options.count_all || (probe.e2e_s.mean <= part.span_s() && steady(in_system) && steady(ttft_by_batch(measured)));
  probe.enough_requests =
      options.count_all || static_cast<double>(all.size() - first) >= options.min_requests_ratio * probe.outstanding;
  if (options.slo.any()) {
    probe.slo = score_of(measured, options.slo);
    probe.slo.holds =
        probe.slo.holds && probe.stable && probe.completed >= options.min_completed * probe.measured_offered;
  }
  probe.requests = std::ssize(run.requests) - static_cast<std::int64_t>(run.ramp);
  probe.measured_requests = static_cast<std::int64_t>(part.size());
  probe.steps = run.steps;
  probe.fingerprint = run.fingerprint;
  probe.backlog = static_cast<std::int64_t>(backlog.requests);
  probe.extrapolated = run.extrapolated_share();
  return probe;
}

}  // namespace epsim
