#include "sim/study/capacity_ask.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/cluster/run_policy.h"
#include "sim/cluster/simulate.h"
#include "sim/study/goodput.h"
#include "sim/study/load_point.h"
#include "sim/study/slo_curve.h"

namespace epsim {
namespace {

constexpr std::int32_t kCutOutput = 2;
constexpr std::size_t kShareRequests = 2;   // times the first ones, for an instance at its share
constexpr std::size_t kPromptRequests = 4;  // likewise: near its knee a queue of prompts takes long to show
constexpr double kLessMissing = 2.0 / 3;  // completions that a longer run lacks, if a shorter one lacked them by chance

RequestTrace cut_outputs(RequestTrace trace, bool cut) {
  for (Request& r : trace.requests) {
    r.output_tokens = cut ? std::min(r.output_tokens, kCutOutput) : r.output_tokens;
  }
  trace.drop_unfilled_blocks();
  return trace;
}

// At this rate; conversations keep their own times.
RequestTrace trace_at(const Scenario& scenario, std::size_t count, bool cut, double rate) {
  RequestTrace made = trace_of(scenario, count, cut);
  if (scenario.make_paced) {
    made = cut_outputs(scenario.make_paced(count, rate / arrival_rate(made)), cut);
  }
  return at_rate(made, rate);
}

// Without a bound, a deployment holds what it completes in a steady state.
LoadPoint measured_point(const RunResult& run, double rate, const GoodputOptions& given, bool cut) {
  const GoodputOptions options = options_for(given, cut);
  LoadPoint out = measure_load_point(run, rate, options);
  if (options.slo.any()) {
    out.slo.limit = limit_in(given.slo, cut, out.slo.limit);
  } else {
    out.slo.holds = out.stable && out.completed >= options.min_completed * out.measured_offered;
    out.slo.decided = true;
  }
  return out;
}

Seconds span_of(const RequestTrace& trace) { return to_seconds(trace.requests.back().arrival); }

// The same requests from so many clients, who begin over `ramp`.
RequestTrace from_clients(RequestTrace trace, double clients, Seconds ramp) {
  trace.turn_before.clear();
  for (Request& r : trace.requests) {
    r.arrival = {};
  }
  trace.closed_loop = {.concurrency = std::max(1, static_cast<int>(std::lround(clients))), .ramp = to_ticks(ramp)};
  return trace;
}

// A run that has not ended when as much time again as `span`, in which its requests should come, has gone by, and
// several times what the longest of them takes alone, falls behind: it is cut short there, and `interrupted`.
RunResult run_until_hopeless(const ReadyDeployment& deployment, const RequestTrace& trace, Seconds span,
                             Seconds longest, const std::atomic<bool>* stop) {
  constexpr Seconds kLeastPatience{30};
  constexpr double kStays = 8;
  const Seconds patience = 2 * span + kLeastPatience + kStays * longest;
  std::atomic<bool> enough{false};
  RunControl control;
  control.stop = &enough;
  control.on_progress = [&](const Progress& progress) {
    enough = to_seconds(progress.now) > patience || (stop != nullptr && *stop);
  };
  RunResult out = run_prepared(deployment.scenario, deployment.prepared, trace, control);
  if (out.interrupted && stop != nullptr && *stop) {
    throw StudyInterrupted();
  }
  return out;
}

// What the longest request of a trace takes, where a token of an answer takes as long as when it is alone.
Seconds longest_stay(const RequestTrace& trace, const LoadPoint& alone) {
  std::int32_t most = 0;
  for (const Request& r : trace.requests) {
    most = std::max(most, r.output_tokens);
  }
  return Seconds(alone.ttft_s.mean + most * alone.tpot_s.mean);
}

// The share of the arrivals that a run did not complete.
double missing_share(const LoadPoint& p) { return 1 - p.completed / p.measured_offered; }

// Violates no bound, but drifts or completes too few. In a short run that can be chance: its second half is busier than
// its first, or its last requests arrive in a burst, the same ones for every design. A longer run then completes more;
// of an overloaded instance it completes the same share. `missing`: the share that a shorter run did not complete. A run
// that ends before the system has filled says nothing of either.
bool fails_by_chance(const LoadPoint& p, double missing) {
  const bool more = !p.enough_requests || missing_share(p) < kLessMissing * missing;
  return !p.slo.holds && p.slo.excess <= 0 && more;
}

// Whether a longer run would say the same.
bool told(const LoadPoint& p) {
  return p.slo.holds ? p.slo.decided && p.enough_requests : p.slo.excess > 0 && p.slo.decided;
}

// Of a run that was cut short the point is empty, and holds nothing.
CapacityAnswer served(const Asked& asked, const RequestTrace& trace, Seconds span, Seconds longest, bool& complete) {
  const RunResult run = run_until_hopeless(asked.deployment, trace, span, longest, asked.stop);
  complete = !run.interrupted;
  CapacityAnswer out = answer_of(asked.deployment);
  if (complete) {
    out.point = measured_point(run, asked.rate, asked.options, asked.cut);
    out.busy = measured_busy(run, asked.options);
    out.extrapolated = run.extrapolated_share();
    out.carried_over = run.carried_over;
  } else {
    out.point.requests = trace.steady();
  }
  out.point.offered = complete && asked.clients > 0 ? out.point.completed : asked.rate;
  return out;
}

// Under a steady load: as many of the first requests as it takes to tell, their arrivals scaled to the rate.
CapacityAnswer steady_answer(const Asked& asked, const CapacityQuestion& question) {
  const Scenario& s = asked.deployment.scenario;
  // Many instances hold many requests: a run that ends before they have filled is no steady state.
  const std::size_t allowed = question.most_requests * static_cast<std::size_t>(pools_of(s).back().instances);
  const std::size_t most = s.make_requests ? allowed : std::min(allowed, s.requests.requests.size());
  const std::size_t first = std::min(most, question.first_requests * (asked.cut ? kPromptRequests : 1));
  const std::size_t usual = asked.few ? std::min(most, kShareRequests * first) : most;
  double missing = std::numeric_limits<double>::infinity();
  Seconds ramp(asked.alone.e2e_s.mean);
  for (std::size_t count = first;;) {
    RequestTrace trace = trace_at(s, count, asked.cut, asked.rate);
    const Seconds longest = longest_stay(trace, asked.alone), span = span_of(trace);
    if (asked.clients > 0) {
      trace = from_clients(std::move(trace), asked.clients, ramp);
    }
    bool complete = false;
    CapacityAnswer out = served(asked, trace, span, longest, complete);
    if (!complete) {
      if (count >= most || span > 2 * longest) {
        return out;
      }
      count = std::min(most, 3 * count);  // the system had hardly filled
      continue;
    }
    if (const Seconds stay(out.point.e2e_s.mean); asked.clients > 0 && stay > 2 * ramp) {
      ramp = stay;  // clients that begin closer together than that meet again and again
      continue;
    }
    const bool full = out.point.enough_requests || !out.point.slo.holds;
    const bool unclear = fails_by_chance(out.point, missing);
    if (told(out.point) || count >= most || (full && !unclear && count >= usual)) {
      return out;
    }
    missing = unclear && out.point.enough_requests ? missing_share(out.point) : missing;
    if (unclear && count >= usual) {
      count = std::min(most, 3 * count);
      continue;
    }
    count = std::min(full ? usual : most, std::max(3 * count, requests_needed(out.point, asked.options)));
  }
}

// What holds a recording's mean load may not hold its bursts: up to `most` of its requests where they come closest together, at
// their own times, each of which counts. Where designs are separated, as many as told the steady load come first: what holds there
// is asked no more.
CapacityAnswer recorded_answer(Asked asked, const CapacityAnswer& steady, std::size_t most) {
  asked.options.count_all = true;
  const double completed = asked.options.min_completed;
  const RequestTrace all = at_rate(cut_outputs(asked.deployment.scenario.requests, asked.cut), asked.rate);
  const auto ask = [&](std::size_t count) {
    const RequestTrace part = count < all.requests.size() ? busiest_of(all, count) : all;
    asked.options.min_completed = count < all.requests.size() ? 0 : completed;  // a burst's answers end after it
    bool complete = false;
    CapacityAnswer out = served(asked, part, span_of(part), longest_stay(part, asked.alone), complete);
    out.point.slo.decided = true;  // the recording is what is asked, not a sample
    return out;
  };
  const auto told_by = static_cast<std::size_t>(steady.point.requests);
  if (asked.few && told_by < std::min(most, all.requests.size()) && span_of(busiest_of(all, told_by)) > Seconds(0)) {
    CapacityAnswer out = ask(told_by);
    if (out.point.slo.holds) {
      return out;
    }
  }
  return ask(most);
}

}  // namespace

CapacityAnswer answer_to(const Asked& asked, const CapacityQuestion& question, std::size_t most_of_recording) {
  const CapacityAnswer steady = steady_answer(asked, question);
  const bool recorded = !asked.deployment.scenario.make_requests && asked.clients <= 0;
  return recorded && steady.point.slo.holds ? recorded_answer(asked, steady, most_of_recording) : steady;
}

CapacityAnswer answer_of(const ReadyDeployment& deployment) {
  CapacityAnswer out;
  const PreparedInstance& last = deployment.prepared.last();
  out.instances = pools_of(deployment.scenario).back().instances;
  out.kv_tokens = last.serving.kv_blocks * last.serving.kv_block_tokens * last.serving.dp_ranks;
  out.input_tokens = deployment.input_tokens;
  out.output_tokens = deployment.output_tokens;
  return out;
}

RequestTrace trace_of(const Scenario& scenario, std::size_t count, bool cut) {
  return cut_outputs(first_of(scenario.make_requests ? scenario.make_requests(count) : scenario.requests, count), cut);
}

GoodputOptions options_for(const GoodputOptions& options, bool cut) {
  GoodputOptions out = options;
  if (cut) {
    std::erase_if(out.slo.terms, [](const SloTerm& term) { return term.metric != LatencyMetric::kTtft; });
  }
  return out;
}

int limit_in(const Slo& slo, bool cut, int index) {
  for (std::size_t t = 0; cut && t < slo.terms.size(); ++t) {
    if (slo.terms[t].metric == LatencyMetric::kTtft && index-- == 0) {
      return static_cast<int>(t);
    }
  }
  return cut ? 0 : index;
}

}  // namespace epsim
