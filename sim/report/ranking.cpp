#include "sim/report/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace epsim {
namespace {

// Undefined figures rank last.
double throughput_of(const RunSummary& run) {
  return run.completed > 0 && std::isfinite(run.throughput.requests_per_s) ? run.throughput.requests_per_s : -1.0;
}
double ttft_of(const RunSummary& run) {
  return std::isfinite(run.ttft.mean_ms) ? run.ttft.mean_ms : std::numeric_limits<double>::infinity();
}

double relative(double first, double run) { return ratio(run, first) - 1; }

// "mean TTFT -12.3 % (812 against 926 ms)"; says so when a side is undefined.
std::string against(std::string_view name, double first, double run, std::string_view unit) {
  return fmt::format("{} {} % ({} against {} {})", name, signed_percent(relative(first, run)), rounded(run),
                     rounded(first), unit);
}

std::string kv_cost(const RunSummary& first, const RunSummary& run, const Change& c) {
  const std::string tokens = fmt::format("({} against {} tokens per rank)", grouped(run.kv.tokens_per_rank),
                                         grouped(first.kv.tokens_per_rank));
  if (c.copies_gib_per_gpu == 0) {
    return fmt::format("KV pool {} % {}; no memory goes to further copies.", signed_percent(c.kv_tokens), tokens);
  }
  return fmt::format("KV pool {} % {}: {} {} GiB per GPU for copies.", signed_percent(c.kv_tokens), tokens,
                     c.copies_gib_per_gpu > 0 ? "it gives up" : "it saves", fixed(std::abs(c.copies_gib_per_gpu), 3));
}

std::string kv_pressure(const RunSummary& first, const RunSummary& run) {
  if (first.kv.full_time_share == 0 && run.kv.full_time_share == 0) {
    return "No request waited for KV blocks in either run, so the size of the pool made no difference at this load.";
  }
  return fmt::format("A request at the head of a queue lacked KV blocks in {} % of the busy time (against {} %).",
                     percent(run.kv.full_time_share), percent(first.kv.full_time_share));
}

// Beyond its capacity a service falls behind for as long as requests keep coming, so its latencies say how long the run
// was. 0.95 is the bound of physics.md section 7; a short run misses it by its tail alone, so the queue must show it
// too.
bool overloaded(const RunSummary& run) {
  constexpr double kServed = 0.95, kQueueShare = 0.05;
  return run.throughput.requests_per_s < kServed * run.throughput.offered_requests_per_s &&
         run.queue.p99_ms > kQueueShare * 1e3 * run.throughput.duration_s;
}

std::string overload_note(const RunSummary& first, const RunSummary& run) {
  if (!overloaded(first) && !overloaded(run)) {
    return "";
  }
  const std::string who = overloaded(first) && overloaded(run) ? "Both runs"
                          : overloaded(first)                  ? first.label
                                                               : run.label;
  return fmt::format(
      " {} could not keep up with {} requests/s: there, throughputs compare, while latencies grow with the length of "
      "the run.",
      who, rounded(run.throughput.offered_requests_per_s));
}

}  // namespace

std::vector<std::size_t> rank_runs(std::span<const RunSummary> runs) {
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return throughput_of(runs[a]) > throughput_of(runs[b]); });
  // "Within 1 %" of each other is not transitive; within 1 % of the group's best is, so groups are cut from the top.
  for (auto group = order.begin(); group != order.end();) {
    const double best = throughput_of(runs[*group]);
    const auto end = std::find_if(group, order.end(), [&](std::size_t i) {
      const double rate = throughput_of(runs[i]);
      return best < 0 ? rate >= 0 : rate < best * (1 - kEqualThroughput);
    });
    std::sort(group, end, [&](std::size_t a, std::size_t b) {
      const double ta = ttft_of(runs[a]), tb = ttft_of(runs[b]);
      return ta != tb ? ta < tb : a < b;
    });
    group = end;
  }
  return order;
}

Change change(const RunSummary& first, const RunSummary& run) {
  Change out;
  out.requests_per_s = relative(first.throughput.requests_per_s, run.throughput.requests_per_s);
  out.ttft_mean = relative(first.ttft.mean_ms, run.ttft.mean_ms);
  out.itl_mean = relative(first.itl.mean_ms, run.itl.mean_ms);
  out.e2e_mean = relative(first.e2e.mean_ms, run.e2e.mean_ms);
  out.kv_tokens = relative(static_cast<double>(first.kv.tokens_per_rank), static_cast<double>(run.kv.tokens_per_rank));
  out.copies_gib_per_gpu = run.kv.copies_gib_per_gpu - first.kv.copies_gib_per_gpu;
  return out;
}

std::string conclusion(const RunSummary& first, const RunSummary& run) {
  const Change c = change(first, run);
  const std::string gains =
      fmt::format("{} against {}: {}, {}, {}, {}, balancedness {} against {}.", run.label, first.label,
                  against("throughput", first.throughput.requests_per_s, run.throughput.requests_per_s, "requests/s"),
                  against("mean TTFT", first.ttft.mean_ms, run.ttft.mean_ms, "ms"),
                  against("mean ITL", first.itl.mean_ms, run.itl.mean_ms, "ms"),
                  against("mean end-to-end", first.e2e.mean_ms, run.e2e.mean_ms, "ms"), fixed(run.balancedness.mean, 3),
                  fixed(first.balancedness.mean, 3));
  return fmt::format("{} {} {}{}", gains, kv_cost(first, run, c), kv_pressure(first, run), overload_note(first, run));
}

}  // namespace epsim
