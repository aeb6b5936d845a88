// What a service does: requests, rates, latencies, steps and their time, balance.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "sim/core/statistics.h"
#include "sim/report/metric_rows.h"
#include "sim/report/summary.h"

namespace epsim {
namespace {

using enum Better;
using enum Form;
using Run = const RunResult&;

auto in_state(RequestState state) {
  return [state](Run r) {
    const auto all = r.measured();
    return std::ranges::count(all, state, &RequestRecord::state);
  };
}

double retries(Run r) {
  double sum = 0;
  for (auto i = static_cast<std::size_t>(r.warmup); i < r.requests.size(); ++i) {
    sum += r.requests.extras(i).retries;
  }
  return sum;
}

double per_second(Run r, std::int64_t count) { return ratio(static_cast<double>(count), duration_of(r).count()); }

Seconds due_within(Run r) { return to_seconds(r.due_of(r.requests.size() - 1) - r.due_of(0)); }

double offered_rate(Run r) {
  if (r.requests.empty() || r.concurrency > 0) {  // clients offer what is served
    return kUndefined;
  }
  return ratio(static_cast<double>(r.requests.size()) - 1, due_within(r).count());
}

// Seconds from when a quarter of the requests were due to what `event` tells of each, their mean; undefined where none comes so far.
double mean_of_quarter(Run r, std::size_t quarter, PackedTicks RequestRecord::*event) {
  const std::size_t size = r.requests.size() / 4;
  RunningStats out;
  for (std::size_t i = quarter * size; i < (quarter + 1) * size; ++i) {
    if (r.requests[i].state == RequestState::kFailed) {
      continue;
    }
    if (const Ticks end = r.requests[i].*event, due = r.due_of(i); end > due) {
      out.add(to_seconds(end - due).count());
    }
  }
  return out.count() > 0 ? out.mean() : kUndefined;
}

constexpr double kServed = 0.95;  // of what is offered: the bound of physics.md section 7

// From the first quarter to the third; the last one ends when nothing arrives any more, and faster. Where a share
// kServed is served, the one that arrives a second later waits for 1 / kServed - 1 seconds longer.
bool grows(Run r, Seconds arrivals, PackedTicks RequestRecord::*event, std::size_t to_quarter) {
  constexpr double kTimes = 2;
  const double early = mean_of_quarter(r, 0, event), late = mean_of_quarter(r, to_quarter, event);
  return late > kTimes * early && late - early > (1 / kServed - 1) * arrivals.count() / 2;
}

// Behind: over the second half of the arrivals fewer requests end than arrive; twice the deviation of a Poisson count
// allows for chance. A service that keeps up does so, too, while it fills: then the time to the first token does not
// grow, and neither do stays in a run that is long enough to see the first ones end.
bool overloaded(Run r) {
  constexpr double kMostStay = 0.25;  // of the time in which requests arrive
  constexpr std::size_t kLeast = 100;
  if (r.interrupted || r.concurrency > 0 || r.requests.size() < kLeast) {  // clients offer what is served
    return false;
  }
  const std::size_t half = r.requests.size() - r.requests.size() / 2;
  const Ticks from = r.due_of(half), to = r.due_of(r.requests.size() - 1);
  const auto failed = [](const RequestRecord& q) { return q.state == RequestState::kFailed; };
  const auto ended =
      static_cast<double>(std::count_if(r.requests.begin(), r.requests.end(), [&](const RequestRecord& q) {
        return !failed(q) && q.finished > from && q.finished <= to;
      }));
  const bool any_failed = std::any_of(r.requests.begin(), r.requests.end(), failed);
  const auto arrived = static_cast<double>(
      std::count_if(r.requests.begin() + static_cast<std::ptrdiff_t>(half), r.requests.end(), std::not_fn(failed)));
  if (ended >= kServed * arrived || ended >= arrived - 2 * std::sqrt(arrived)) {
    return false;
  }
  const Seconds arrivals = due_within(r);
  // What waits after an outage is no overload once it has been caught up with.
  const auto grows_on = [&](PackedTicks RequestRecord::*event) {
    return grows(r, arrivals, event, 2) && (!any_failed || grows(r, arrivals, event, 3));
  };
  return grows_on(&RequestRecord::first_token) ||
         (mean_of_quarter(r, 0, &RequestRecord::finished) < kMostStay * arrivals.count() &&
          grows_on(&RequestRecord::finished));
}

void add_run(MetricRows& rows) {
  add_rows(
      rows, "",
      {{"overrides", kText, kNeither, {}, [](Run r) { return r.overrides; }},
       {"plan", kText, kNeither, {}, [](Run r) { return r.plan_summary; }},
       {"row_sharing", kText, kNeither, {}, [](Run r) { return r.row_sharing; }},
       {"load_counts", kText, kNeither, {}, [](Run r) { return std::string(r.whole_counts ? "whole" : "expected"); }},
       {"fingerprint", kText, kNeither, {}, [](Run r) { return r.fingerprint; }},
       {"interrupted", kFlag, kNeither, [](Run r) { return r.interrupted; }},
       {"overloaded", kFlag, kLower, overloaded},
       {"gpus", kCount, kNeither, [](Run r) { return r.gpus; }}});
}

void add_requests(MetricRows& rows) {
  add_rows(
      rows, "requests",
      {{"closed_loop_clients", kCount, kNeither, [](Run r) { return r.concurrency > 0 ? r.concurrency : kUndefined; }},
       {"warmup_requests", kCount, kNeither, [](Run r) { return r.warmup; }},
       {"offered_requests", kCount, kNeither, [](Run r) { return r.measured().size(); }},
       {"completed_requests", kCount, kHigher, [](Run r) { return r.completed; }},
       {"failed_requests", kCount, kLower, [](Run r) { return r.failed; }},
       {"retried_requests", kCount, kLower, retries},
       {"running_requests", kCount, kNeither, in_state(RequestState::kRunning)},
       {"waiting_requests", kCount, kLower, in_state(RequestState::kWaiting)},
       {"turns_waited", kCount, kNeither, [](Run r) { return r.turns_waited; }},
       {"completed_input_tokens", kCount, kHigher, [](Run r) { return r.input_tokens; }},
       {"completed_output_tokens", kCount, kHigher, [](Run r) { return r.output_tokens; }}});
}

void add_throughput(MetricRows& rows) {
  add_rows(rows, "throughput",
           {{"duration_s", kNumber, kLower, [](Run r) { return duration_of(r).count(); }},
            {"offered_requests_per_s", kNumber, kNeither, offered_rate},
            {"requests_per_s", kNumber, kHigher, [](Run r) { return per_second(r, r.completed); }},
            {"input_tokens_per_s", kNumber, kHigher, [](Run r) { return per_second(r, r.input_tokens); }},
            {"output_tokens_per_s", kNumber, kHigher, [](Run r) { return per_second(r, r.output_tokens); }},
            {"input_tokens_per_s_per_gpu", kNumber, kHigher,
             [](Run r) { return ratio(per_second(r, r.input_tokens), r.gpus); }},
            {"output_tokens_per_s_per_gpu", kNumber, kHigher,
             [](Run r) { return ratio(per_second(r, r.output_tokens), r.gpus); }}});
}

void add_latency(MetricRows& rows, const std::string& name, Summary LatencySummary::*of) {
  static constexpr std::pair<const char*, double Summary::*> kStatistics[] = {{"mean", &Summary::mean},
                                                                              {"p50", &Summary::p50},
                                                                              {"p90", &Summary::p90},
                                                                              {"p99", &Summary::p99},
                                                                              {"max", &Summary::max}};
  for (const auto& [statistic, value] : kStatistics) {
    add_rows(rows, "latency", {{fmt::format("{}_{}_ms", name, statistic), kNumber, kLower, [of, value = value](Run r) {
                                  return ms_of(r.latency.*of, value);
                                }}});
  }
  add_rows(rows, "latency", {{name + "_samples", kCount, kNeither, [of](Run r) { return (r.latency.*of).count; }}});
}

void add_latencies(MetricRows& rows) {
  add_latency(rows, "ttft", &LatencySummary::ttft_s);
  add_latency(rows, "itl", &LatencySummary::itl_s);
  add_latency(rows, "tpot", &LatencySummary::tpot_s);
  add_latency(rows, "e2e", &LatencySummary::e2e_s);
  add_latency(rows, "queue", &LatencySummary::queue_s);
}

void add_steps(MetricRows& rows) {
  add_rows(rows, "step",
           {{"steps", kCount, kNeither, [](Run r) { return r.steps; }},
            {"graph_steps", kCount, kNeither, [](Run r) { return r.replayed_steps; }},
            {"step_mean_ms", kNumber, kLower,
             [](Run r) { return ratio(r.time.total.count() * 1e3, static_cast<double>(r.steps)); }},
            {"step_time_s", kNumber, kLower, [](Run r) { return r.time.total.count(); }},
            {"busy_share", kPercent, kNeither, [](Run r) {
               const std::size_t instances = std::max<std::size_t>(1, r.instances.size());
               return ratio(r.time.total.count(), whole_duration_of(r).count() * static_cast<double>(instances));
             }}});
  for (std::size_t k = 0; k < kStepKinds; ++k) {
    const std::string name(kStepKindNames[k]);
    add_rows(
        rows, "step",
        {{name + "_steps", kCount, kNeither, [k](Run r) { return r.by_kind[k].steps; }},
         {name + "_step_mean_ms", kNumber, kLower,
          [k](Run r) { return ratio(r.by_kind[k].time.total.count() * 1e3, static_cast<double>(r.by_kind[k].steps)); }},
         {name + "_step_time_share", kPercent, kNeither,
          [k](Run r) { return ratio(r.by_kind[k].time.total.count(), r.time.total.count()); }}});
  }
}

// Seconds of the step time, and their share of it.
void add_time(MetricRows& rows, std::string_view section, const std::string& name, Better better,
              std::function<double(Run)> seconds) {
  add_rows(rows, section,
           {{name + "_s", kNumber, better, seconds},
            {name + "_share", kPercent, better, [seconds](Run r) { return ratio(seconds(r), r.time.total.count()); }}});
}

void add_step_time(MetricRows& rows) {
  for (std::size_t p = 0; p < kLayerParts; ++p) {
    add_time(rows, "time_by_part", std::string(kLayerPartNames[p]), kLower,
             [p](Run r) { return r.time.by_part[p].count(); });
  }
  for (std::size_t o = 0; o < kOrigins; ++o) {
    add_time(rows, "time_by_origin", std::string(kOriginNames[o]), kNeither,
             [o](Run r) { return r.time.by_origin[o].count(); });
  }
}

struct WorstLayer {
  int number = -1;  // in the model; the first of several equal ones; -1 = no layer
  double mean = kUndefined;
};
WorstLayer worst_layer(Run r) {
  WorstLayer out;
  for (const LayerTotals& layer : r.detail.layers) {
    const double mean = ratio(layer.balancedness_sum, static_cast<double>(r.detail.steps));
    if (r.detail.steps > 0 && (out.number < 0 || mean < out.mean)) {
      out = {layer.layer_number, mean};
    }
  }
  return out;
}

double mean_balancedness(Run r) {
  double sum = 0;
  for (const LayerTotals& layer : r.detail.layers) {
    sum += layer.balancedness_sum / static_cast<double>(r.detail.steps);
  }
  return r.detail.steps > 0 ? ratio(sum, static_cast<double>(r.detail.layers.size())) : kUndefined;
}

double lowest_balancedness(Run r) {
  double out = kUndefined;
  for (const LayerTotals& layer : r.detail.layers) {
    out = r.detail.steps > 0 ? std::fmin(out, layer.balancedness_min) : kUndefined;
  }
  return out;
}

// Over an instance's GPUs, of a layer's assignments over the run, relative to their mean; mean over layers and instances.
double gpu_load_deviation(Run r) {
  const auto width = static_cast<std::size_t>(r.detail.gpus);
  double sum = 0, count = 0;
  for (std::size_t l = 0; l < r.detail.layers.size(); ++l) {
    for (const std::span<const double> loads : by_instance(r, std::span(r.detail.gpu_load).subspan(l * width, width))) {
      const auto gpus = static_cast<double>(loads.size());
      const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / gpus;
      const double squares = std::accumulate(loads.begin(), loads.end(), 0.0, [mean](double so_far, double x) {
        return so_far + (x - mean) * (x - mean);
      });
      sum += mean > 0 ? std::sqrt(squares / gpus) / mean : 0;
      ++count;
    }
  }
  return ratio(sum, count);
}

double gpu_idle_s(Run r) {
  const std::vector<double>& busy = r.detail.gpu_busy_s;
  const auto width = static_cast<std::size_t>(r.detail.gpus);
  double mean = 0;  // every instance's own: its steps wait for its GPUs
  for (std::size_t row = 0; width > 0 && row + width <= busy.size(); row += width) {
    for (const std::span<const double> own : by_instance(r, std::span(busy).subspan(row, width))) {
      mean += std::accumulate(own.begin(), own.end(), 0.0) / static_cast<double>(own.size());
    }
  }
  // The two sums round differently: GPUs that never wait could come to less than nothing.
  return std::max(0.0, r.time.by_part[static_cast<std::size_t>(LayerPart::kExperts)].count() - mean);
}

void add_balance(MetricRows& rows) {
  add_rows(rows, "balancedness",
           {{"balancedness_mean", kThreeDigits, kHigher, mean_balancedness},
            {"balancedness_worst_layer_mean", kThreeDigits, kHigher, [](Run r) { return worst_layer(r).mean; }},
            {"balancedness_worst_layer", kIndex, kNeither,
             [](Run r) {
               const int number = worst_layer(r).number;
               return number < 0 ? kUndefined : number;
             }},
            {"balancedness_lowest_step", kThreeDigits, kHigher, lowest_balancedness},
            {"gpu_load_deviation", kThreeDigits, kLower, gpu_load_deviation},
            {"balancedness_planned", kThreeDigits, kHigher, [](Run r) {
               const std::vector<double>& by_layer = r.planned_balancedness;
               return ratio(std::accumulate(by_layer.begin(), by_layer.end(), 0.0),
                            static_cast<double>(by_layer.size()));
             }}});
}

void add_straggler(MetricRows& rows) {
  add_rows(rows, "straggler", {{"gpu_idle_s", kNumber, kLower, gpu_idle_s}});
  add_time(rows, "straggler", "straggler", kLower, [](Run r) { return r.time.straggler.count(); });
}

}  // namespace

void add_service_metrics(MetricRows& rows) {
  for (const auto part :
       {add_run, add_requests, add_throughput, add_latencies, add_steps, add_step_time, add_balance, add_straggler}) {
    part(rows);
  }
}

}  // namespace epsim
