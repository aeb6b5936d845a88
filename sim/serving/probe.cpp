#include "sim/serving/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/error.h"
#include "sim/core/statistics.h"

namespace epsim {
namespace {

constexpr int kBatches = 10;                     // of the stability check, five for each half
constexpr std::size_t kLeast = 40;               // measured requests
constexpr double kFillings = 2;                  // times the number in the system that warm up at least
constexpr double kMostFilling = 0.5;             // of the requests, at most
constexpr std::size_t kAlone = 256;              // requests that tell the idle TTFT
constexpr Ticks kApart{10'000'000'000'000'000};  // 10,000 s between them; 256 of these are 30 days of simulated time

double seconds(Ticks t) { return to_seconds(t).count(); }

// The requests that count, [begin, end), and the time in which they arrive.
struct MeasuredPart {
  std::size_t begin = 0, end = 0;
  Ticks from{}, to{};
  std::size_t size() const { return end - begin; }
  double span_s() const { return seconds(to - from); }
};

MeasuredPart measured_part(std::span<const RequestRecord> requests, const GoodputOptions& options) {
  const auto n = static_cast<double>(requests.size());
  MeasuredPart part;
  part.begin = static_cast<std::size_t>(n * options.warmup_share);
  part.end = requests.size() - static_cast<std::size_t>(n * options.drain_share);
  if (part.end < part.begin + kLeast) {
    throw InputError({"", 0, "requests"},
                     fmt::format("{} requests leave {} between warm-up and drain; at least {} are needed to tell a "
                                 "steady state from one that is not.",
                                 requests.size(), part.end > part.begin ? part.end - part.begin : 0, kLeast));
  }
  part.from = requests[part.begin].arrival;
  part.to = requests[std::min(part.end, requests.size() - 1)].arrival;
  if (part.to <= part.from) {
    throw InputError({"", 0, "requests"}, "all measured requests arrive at once; a rate needs arrivals apart in time.");
  }
  return part;
}

double mean_of(std::span<const double> values) {
  RunningStats stats;
  for (const double v : values) {
    stats.add(v);
  }
  return stats.mean();
}

// Mean number of requests in the system in each of kBatches equal spans of the measured time.
std::vector<double> concurrency_by_batch(std::span<const RequestRecord> requests, const MeasuredPart& part) {
  std::vector<double> out(kBatches, 0.0);
  const double from = seconds(part.from), span = part.span_s() / kBatches;
  for (const RequestRecord& r : requests) {
    const double begin = (seconds(r.arrival) - from) / span, end = (seconds(r.finished) - from) / span;
    const int last = std::min(kBatches - 1, static_cast<int>(std::floor(std::min(end, 1.0 * kBatches))));
    for (int b = std::max(0, static_cast<int>(std::floor(std::min(begin, 1.0 * kBatches)))); b <= last; ++b) {
      out[static_cast<std::size_t>(b)] += std::max(0.0, std::min(end, b + 1.0) - std::max(begin, 1.0 * b));
    }
  }
  return out;
}

// Leaves out what came before the system had filled, too: twice as many requests as are in it. Where requests stay for
// long, a share of the trace would leave in times at which the system is emptier and faster than it will be.
MeasuredPart filled_part(std::span<const RequestRecord> requests, MeasuredPart part) {
  const double in_system = mean_of(concurrency_by_batch(requests, part));
  const double filling = std::min(kFillings * in_system, kMostFilling * static_cast<double>(requests.size()));
  const auto begin = std::min(static_cast<std::size_t>(filling), part.end - kLeast);
  if (begin > part.begin && requests[begin].arrival < part.to) {
    part.begin = begin;
    part.from = requests[begin].arrival;
  }
  return part;
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

// The rate at which the measured requests end: that at which they arrive, unless the last ones stay longer than the
// first. What ends within the measured time instead hangs on how many happen to be in the system at its start and its
// end. Where the last ones stay shorter, the trace has run out: nothing is completed faster than it arrives for long.
double completed_rate(std::span<const RequestRecord> measured, double span_s) {
  const std::size_t batch = measured.size() / kBatches;
  const auto stay = [&](std::size_t first) {
    RunningStats out;
    for (const RequestRecord& r : measured.subspan(first, batch)) {
      out.add(seconds(r.finished - r.arrival));
    }
    return out.mean();
  };
  // The middles of the first and the last batch are all but one batch apart.
  const double longer = (stay(measured.size() - batch) - stay(0)) * kBatches / (kBatches - 1);
  return static_cast<double>(measured.size()) / (span_s + std::max(0.0, longer));
}

struct Latencies {
  double ttft, e2e;
  std::optional<double> gap;  // mean; none with one output token
};

Latencies latencies_of(const RequestRecord& r) {
  Latencies out{seconds(r.first_token - r.arrival), seconds(r.finished - r.arrival), std::nullopt};
  if (r.output_tokens > 1) {
    out.gap = seconds(r.finished - r.first_token) / (r.output_tokens - 1);
  }
  return out;
}

bool meets(const Latencies& l, const SloBounds& slo) {
  const auto within = [](std::optional<double> value, const std::optional<Seconds>& bound) {
    return !bound || !value || *value <= bound->count();
  };
  return within(l.ttft, slo.ttft) && within(l.gap, slo.itl) && within(l.e2e, slo.e2e);
}

void add_latencies(Probe& probe, std::span<const RequestRecord> measured, const SloBounds& slo, double span_s) {
  std::vector<double> ttft;
  RunningStats gap, e2e;
  std::int64_t good = 0;
  for (const RequestRecord& r : measured) {
    const Latencies l = latencies_of(r);
    ttft.push_back(l.ttft);
    e2e.add(l.e2e);
    if (l.gap) {
      gap.add(*l.gap);
    }
    good += meets(l, slo) ? 1 : 0;
  }
  const Summary summary = summarize(std::move(ttft));
  probe.ttft_mean_s = summary.mean;
  probe.ttft_p99_s = summary.p99;
  probe.tpot_mean_s = gap.mean();
  probe.e2e_mean_s = e2e.mean();
  probe.slo_requests_per_s = slo.any() ? static_cast<double>(good) / span_s : 0;
}

}  // namespace

double arrival_rate(const RequestTrace& trace) {
  trace.validate();
  const Ticks span = trace.requests.back().arrival - trace.requests.front().arrival;
  if (span <= Ticks{}) {
    throw InputError({trace.source, 0, "requests"},
                     "all requests arrive at once, so their arrivals cannot be scaled to a rate.");
  }
  return static_cast<double>(trace.requests.size() - 1) / seconds(span);
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
  std::vector<std::size_t> positions(std::min(count, trace.requests.size()));
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  return trace.select(positions);
}

RequestTrace as_burst(const RequestTrace& trace) {
  RequestTrace out = trace;
  for (Request& r : out.requests) {
    r.arrival = Ticks{};
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
  for (std::size_t i = 0; i < wanted; ++i) {
    out.requests[i].arrival = kApart * static_cast<std::int64_t>(i);
    out.requests[i].output_tokens = 1;
  }
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
  std::vector<Ticks> ends;
  for (const RequestRecord& r : run.requests) {
    ends.push_back(r.finished);
  }
  std::sort(ends.begin(), ends.end());
  const auto n = static_cast<double>(ends.size());
  const auto first = static_cast<std::size_t>(n * options.warmup_share);
  const std::size_t last = ends.size() - 1 - static_cast<std::size_t>(n * options.drain_share);
  if (last <= first || ends[last] <= ends[first]) {
    throw InputError({"", 0, "requests"},
                     fmt::format("{} requests end too close together to tell a rate; give more.", ends.size()));
  }
  return static_cast<double>(last - first) / seconds(ends[last] - ends[first]);
}

bool drifts(std::span<const double> series, double max_drift) {
  const std::size_t half = series.size() / 2;
  RunningStats first, second;
  for (std::size_t i = 0; i < half; ++i) {
    first.add(series[i]);
    second.add(series[series.size() - half + i]);
  }
  const double growth = second.mean() - first.mean();
  const double error = std::sqrt((first.variance() + second.variance()) / static_cast<double>(half));
  return growth > max_drift * first.mean() && growth > student_t_95(2 * static_cast<int>(half) - 2) * error;
}

Probe measure_probe(const RunResult& run, double rate, const GoodputOptions& options) {
  const std::span<const RequestRecord> all = run.requests;
  const MeasuredPart part = filled_part(all, measured_part(all, options));
  const std::span<const RequestRecord> measured = all.subspan(part.begin, part.size());
  Probe probe;
  probe.offered = rate;
  probe.measured_offered = static_cast<double>(part.size()) / part.span_s();
  probe.completed = completed_rate(measured, part.span_s());
  add_latencies(probe, measured, options.slo, part.span_s());
  const std::vector<double> in_system = concurrency_by_batch(all, part);
  probe.concurrency = mean_of(in_system);
  // Where requests stay for longer than is measured, nothing can be told of a steady state.
  probe.stable = probe.e2e_mean_s <= part.span_s() && !drifts(in_system, options.max_drift) &&
                 !drifts(ttft_by_batch(measured), options.max_drift);
  probe.enough_requests = static_cast<double>(all.size()) >= options.min_requests_ratio * probe.concurrency;
  probe.requests = std::ssize(run.requests);
  probe.measured_requests = static_cast<std::int64_t>(part.size());
  probe.steps = run.steps;
  probe.fingerprint = run.fingerprint;
  return probe;
}

}  // namespace epsim
