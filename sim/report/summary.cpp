#include "sim/report/summary.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/core/check.h"

namespace epsim {
namespace {

LatencyFigures figures(const Summary& s) {
  if (s.count == 0) {
    return {};
  }
  return {s.count, s.mean * 1e3, s.p50 * 1e3, s.p90 * 1e3, s.p99 * 1e3, s.max * 1e3};
}

std::int64_t in_state(const RunResult& run, RequestState state) {
  const auto requests = run.measured();
  return std::count_if(requests.begin(), requests.end(), [state](const RequestRecord& r) { return r.state == state; });
}

Seconds arrivals_span(const RunResult& run) {
  const bool none = run.requests.empty() || run.concurrency > 0;  // clients offer what is served
  return none ? Seconds{} : to_seconds(run.requests.back().arrival - run.requests.front().arrival);
}

ThroughputFigures throughput(const RunResult& run) {
  const double duration = duration_of(run).count();
  const double arrivals = arrivals_span(run).count();
  const auto rate = [duration](std::int64_t count) { return ratio(static_cast<double>(count), duration); };
  ThroughputFigures out;
  out.duration_s = duration;
  out.offered_requests_per_s = ratio(static_cast<double>(run.requests.size()) - 1, arrivals);
  out.requests_per_s = rate(run.completed);
  out.input_tokens_per_s = rate(run.input_tokens);
  out.output_tokens_per_s = rate(run.output_tokens);
  out.input_tokens_per_s_per_gpu = ratio(out.input_tokens_per_s, run.gpus);
  out.output_tokens_per_s_per_gpu = ratio(out.output_tokens_per_s, run.gpus);
  return out;
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) {
    sum += v;
  }
  return ratio(sum, static_cast<double>(values.size()));
}

// Behind: over the second half of the arrivals, when the service has filled, fewer requests end than arrive. 0.95 is
// the bound of physics.md section 7; twice the deviation of a Poisson count allows for chance. Where stays are long
// compared with the run a service that keeps up may still be filling: then requests do not wait for their first token.
bool overloaded(const RunResult& run, const LatencyFigures& ttft, double duration_s) {
  constexpr double kServed = 0.95, kTtftShare = 0.05;
  constexpr std::size_t kLeast = 100;
  if (run.interrupted || run.requests.size() < kLeast || !(ttft.p99_ms > kTtftShare * 1e3 * duration_s)) {
    return false;
  }
  const std::span<const RequestRecord> later = std::span(run.requests).last(run.requests.size() / 2);
  const auto ended =
      static_cast<double>(std::count_if(run.requests.begin(), run.requests.end(), [&](const RequestRecord& r) {
        return r.finished > later.front().arrival && r.finished <= later.back().arrival;
      }));
  const auto arrived = static_cast<double>(later.size());
  return ended < kServed * arrived && ended < arrived - 2 * std::sqrt(arrived);
}

BalanceFigures balance(const RunResult& run) {
  BalanceFigures out;
  out.planned = mean(run.planned_balancedness);
  const StepTotals& totals = run.detail;
  if (totals.steps == 0 || totals.layers.empty()) {
    return out;
  }
  double sum = 0;
  out.lowest_step = totals.layers.front().balancedness_min;
  for (const LayerTotals& layer : totals.layers) {
    const double layer_mean = layer.balancedness_sum / static_cast<double>(totals.steps);
    sum += layer_mean;
    out.lowest_step = std::min(out.lowest_step, layer.balancedness_min);
    if (out.worst_layer < 0 || layer_mean < out.worst_layer_mean) {
      out.worst_layer = layer.layer_number;
      out.worst_layer_mean = layer_mean;
    }
  }
  out.mean = sum / static_cast<double>(totals.layers.size());
  return out;
}

KvFigures kv_figures(const RunResult& run) {
  const double lost = run.memory.lost_to_copies;
  EPSIM_CHECK(lost >= 0 && lost < 1, "a run has some KV pool, so copies took less than all of it");
  KvFigures out;
  out.tokens_per_rank = run.kv.blocks_per_rank * run.kv.block_tokens;
  out.gib_per_gpu = to_gib(run.memory.kv_pool);
  out.bytes_per_token_per_gpu = run.memory.kv_bytes_per_token.count();
  out.lost_to_copies_share = lost;
  out.copies_gib_per_gpu = to_gib(run.memory.copies);
  out.peak_use_share = ratio(static_cast<double>(run.kv.peak_blocks), static_cast<double>(run.kv.blocks_per_rank));
  out.mean_use_share = run.steps > 0 ? run.kv.mean_use : kUndefined;
  out.full_time_share = run.steps > 0 ? run.kv.time_full_share : kUndefined;
  out.lookup_tokens = run.kv.lookup_tokens;
  out.hit_tokens = run.kv.hit_tokens;
  out.hit_share = ratio(static_cast<double>(out.hit_tokens), static_cast<double>(out.lookup_tokens));
  out.retractions = run.kv.retractions;
  out.recomputed_tokens = run.kv.recomputed_tokens;
  return out;
}

LinkFigures busiest_link(const RunResult& run) {
  const double duration = whole_duration_of(run).count();
  LinkFigures out;
  for (const LinkTotals& link : run.detail.links) {
    const double use = ratio(link.bytes.count(), link.rate.count() * duration);
    if (out.name.empty() || use > out.utilisation_share) {
      out = {link.name, use};
    }
  }
  return out;
}

template <std::size_t n>
std::array<TimeShare, n> shares(const std::array<Seconds, n>& times, Seconds total) {
  std::array<TimeShare, n> out;
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = {times[i].count(), ratio(times[i].count(), total.count())};
  }
  return out;
}

void add_kinds(const std::string& pool, const StepsByKind& by_kind, Seconds total, std::vector<StepKindFigures>& out) {
  for (std::size_t k = 0; k < by_kind.size(); ++k) {
    const auto& [steps, time] = by_kind[k];
    StepKindFigures& f = out.emplace_back();
    f.pool = pool;
    f.kind = static_cast<StepKind>(k);
    f.steps = steps;
    f.mean_ms = ratio(time.total.count() * 1e3, static_cast<double>(steps));
    f.time = {time.total.count(), ratio(time.total.count(), total.count())};
    f.parts = shares(time.by_part, time.total);
    f.straggler = {time.straggler.count(), ratio(time.straggler.count(), time.total.count())};
  }
}

std::vector<StepKindFigures> step_kinds(const RunResult& run) {
  std::vector<StepKindFigures> out;
  add_kinds("all", run.by_kind, run.time.total, out);
  if (run.instances.empty() || run.instances.front().role == run.instances.back().role) {
    return out;
  }
  for (const InstanceRole role : {InstanceRole::kPrefill, InstanceRole::kDecode}) {
    StepsByKind sum{};
    Seconds total{};
    for (const InstanceTotals& i : run.instances) {
      for (std::size_t k = 0; i.role == role && k < sum.size(); ++k) {
        sum[k].steps += i.by_kind[k].steps;
        add_cost(sum[k].time, i.by_kind[k].time);
        total += i.by_kind[k].time.total;
      }
    }
    add_kinds(std::string(kInstanceRoleNames[static_cast<std::size_t>(role)]), sum, total, out);
  }
  return out;
}

void add_times(const RunResult& run, RunSummary& out) {
  const double total = run.time.total.count();
  out.steps = run.steps;
  out.replayed_steps = run.replayed_steps;
  out.step_time_s = total;
  out.step_kinds = step_kinds(run);
  out.step_mean_ms = ratio(total * 1e3, static_cast<double>(run.steps));
  const double duration = whole_duration_of(run).count();
  out.busy_share = ratio(total, duration * static_cast<double>(std::max<std::size_t>(1, run.instances.size())));
  for (const InstanceTotals& i : run.instances) {
    const double busy = i.time.total.count();
    out.instances.push_back(
        {std::string(kInstanceRoleNames[static_cast<std::size_t>(i.role)]), i.steps, busy, ratio(busy, duration)});
  }
  const auto transfers = static_cast<double>(run.transfers.count);
  out.transfers = {run.transfers.count, run.transfers.tokens, ratio(run.transfers.time.count() * 1e3, transfers),
                   ratio(run.transfers.wait.count() * 1e3, transfers)};
  out.parts = shares(run.time.by_part, run.time.total);
  out.origins = shares(run.time.by_origin, run.time.total);
  out.straggler = {run.time.straggler.count(), ratio(run.time.straggler.count(), total)};
}

}  // namespace

Seconds duration_of(const RunResult& run) {
  return run.measured().empty() ? Seconds{} : to_seconds(run.end - run.measured().front().arrival);
}

Seconds whole_duration_of(const RunResult& run) {
  return run.requests.empty() ? Seconds{} : to_seconds(run.end - run.requests.front().arrival);
}

double imbalance(std::span<const double> loads) {
  if (loads.empty()) {
    return kUndefined;
  }
  const double average = mean(loads);
  return average > 0 ? *std::max_element(loads.begin(), loads.end()) / average : 1.0;
}

RunSummary summarize(const RunResult& run) {
  RunSummary out;
  out.label = run.label;
  out.plan = run.plan_summary;
  out.carried_over = run.carried_over;
  out.warnings = run.warnings;
  out.fingerprint = run.fingerprint;
  out.interrupted = run.interrupted;
  out.gpus = run.gpus;
  out.concurrency = run.concurrency;
  out.warmup = run.warmup;
  out.offered = std::ssize(run.measured());
  out.completed = run.completed;
  out.failed = run.failed;
  for (const RequestRecord& r : run.measured()) {
    out.retries += r.retries;
  }
  out.running = in_state(run, RequestState::kRunning);
  out.waiting = in_state(run, RequestState::kWaiting);
  EPSIM_CHECK(out.completed + out.failed + out.running + out.waiting == out.offered, "every request has one state");
  out.input_tokens = run.input_tokens;
  out.output_tokens = run.output_tokens;
  out.throughput = throughput(run);
  out.ttft = figures(run.latency.ttft_s);
  out.overloaded = overloaded(run, out.ttft, out.throughput.duration_s);
  out.itl = figures(run.latency.itl_s);
  out.tpot = figures(run.latency.tpot_s);
  out.e2e = figures(run.latency.e2e_s);
  out.queue = figures(run.latency.queue_s);
  add_times(run, out);
  out.balancedness = balance(run);
  out.kv = kv_figures(run);
  out.memory = run.memory;
  out.rebalance = run.rebalance;
  out.regroup = run.regroup;
  out.busiest_link = busiest_link(run);
  out.dispatch_bottleneck = run_bottleneck(run.detail, Direction::kDispatch);
  out.combine_bottleneck = run_bottleneck(run.detail, Direction::kCombine);
  out.conservation = run.conservation;
  return out;
}

}  // namespace epsim
