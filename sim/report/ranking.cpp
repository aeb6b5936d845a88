#include "sim/report/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace epsim {
namespace {

// Undefined figures rank last.
double throughput_of(const Comparison& runs, std::size_t policy) {
  const std::vector<RunSummary>& seeds = runs.by_policy[policy];
  const double rate = over_seeds(runs, policy, compared_figure("requests_per_s")).mean;
  const bool none = std::all_of(seeds.begin(), seeds.end(), [](const RunSummary& r) { return r.completed == 0; });
  return !none && std::isfinite(rate) ? rate : -1.0;
}
double ttft_of(const Comparison& runs, std::size_t policy) {
  const double ttft = over_seeds(runs, policy, compared_figure("ttft_mean_ms")).mean;
  return std::isfinite(ttft) ? ttft : std::numeric_limits<double>::infinity();
}

double relative(double first, double run) { return ratio(run, first) - 1; }

// "mean TTFT -12.3 % (812 against 926 ms)"; over several seeds "mean TTFT -12.3 % +- 2.1 (812 against 926 ms)", or
// "mean TTFT no difference (-0.3 % +- 2.1)".
std::string against(const Comparison& runs, std::size_t policy, std::string_view key) {
  const ComparedFigure& figure = compared_figure(key);
  const double first = over_seeds(runs, 0, figure).mean, own = over_seeds(runs, policy, figure).mean;
  const std::string values = fmt::format("{} against {} {}", rounded(own), rounded(first), figure.unit);
  const Estimate apart = difference(runs, policy, figure);
  if (!std::isfinite(apart.half_width)) {
    return fmt::format("{} {} % ({})", figure.title, signed_percent(relative(first, own)), values);
  }
  const std::string share =
      fmt::format("{} % +- {}", signed_percent(ratio(apart.mean, first)), percent(ratio(apart.half_width, first)));
  return holds_zero(apart) ? fmt::format("{} no difference ({})", figure.title, share)
                           : fmt::format("{} {} ({})", figure.title, share, values);
}

// Percentages of what is served in overload, and of latencies that grow with the run, would mislead.
std::string overloaded_against(const Comparison& runs, std::size_t policy) {
  const ComparedFigure& served = compared_figure("requests_per_s");
  const auto rate = [&](std::size_t p) {
    const Estimate e = over_seeds(runs, p, served);
    return rounded(e.mean) + (std::isfinite(e.half_width) ? " +- " + rounded(e.half_width) : "");
  };
  const bool both = is_overloaded(runs, 0) && is_overloaded(runs, policy);
  const std::string& first = runs.first_seed(0).label;
  const std::string& own = runs.first_seed(policy).label;
  return fmt::format(
      "{} against {}: {} requests/s completed against {}. {} overloaded, so their latencies cannot be compared.", own,
      first, rate(policy), rate(0), both ? "Both are" : (is_overloaded(runs, 0) ? first : own) + " is");
}

std::string kv_cost(const RunSummary& first, const RunSummary& run, const Change& c) {
  const std::string tokens = fmt::format("({} against {} tokens per rank)", grouped(run.kv.tokens_per_rank),
                                         grouped(first.kv.tokens_per_rank));
  if (c.copies_gib_per_gpu == 0) {
    return fmt::format("KV pool {} % {}; copies take the same GPU memory.", signed_percent(c.kv_tokens), tokens);
  }
  return fmt::format("KV pool {} % {}: copies take {} GiB {} per GPU.", signed_percent(c.kv_tokens), tokens,
                     fixed(std::abs(c.copies_gib_per_gpu), 3), c.copies_gib_per_gpu > 0 ? "more" : "less");
}

std::string kv_pressure(const RunSummary& first, const RunSummary& run) {
  if (first.kv.full_time_share == 0 && run.kv.full_time_share == 0) {
    return "No request waited for KV blocks in either run, so the size of the pool made no difference at this load.";
  }
  return fmt::format("The first request of a queue waited for KV blocks in {} % of the busy time (against {} %).",
                     percent(run.kv.full_time_share), percent(first.kv.full_time_share));
}

}  // namespace

std::vector<std::size_t> rank_policies(const Comparison& runs) {
  std::vector<std::size_t> order(runs.by_policy.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> throughput, ttft;
  for (const std::size_t p : order) {
    throughput.push_back(throughput_of(runs, p));
    ttft.push_back(ttft_of(runs, p));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return throughput[a] > throughput[b]; });
  // "Within 1 %" of each other is not transitive; within 1 % of the group's best is, so groups are cut from the top.
  for (auto group = order.begin(); group != order.end();) {
    const double best = throughput[*group];
    const auto end = std::find_if(group, order.end(), [&](std::size_t i) {
      const double rate = throughput[i];
      return best < 0 ? rate >= 0 : rate < best * (1 - kEqualThroughput);
    });
    std::sort(group, end, [&](std::size_t a, std::size_t b) { return ttft[a] != ttft[b] ? ttft[a] < ttft[b] : a < b; });
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

std::string conclusion(const Comparison& runs, std::size_t policy) {
  const RunSummary &first = runs.first_seed(0), &run = runs.first_seed(policy);
  const ComparedFigure& balancedness = compared_figure("balancedness_mean");
  const std::string gains =
      is_overloaded(runs, 0) || is_overloaded(runs, policy)
          ? overloaded_against(runs, policy)
          : fmt::format("{} against {}: {}, {}, {}, {}, balancedness {} against {}.", run.label, first.label,
                        against(runs, policy, "requests_per_s"), against(runs, policy, "ttft_mean_ms"),
                        against(runs, policy, "itl_mean_ms"), against(runs, policy, "e2e_mean_ms"),
                        fixed(over_seeds(runs, policy, balancedness).mean, 3),
                        fixed(over_seeds(runs, 0, balancedness).mean, 3));
  return fmt::format("{} {} {}", gains, kv_cost(first, run, change(first, run)), kv_pressure(first, run));
}

std::vector<std::string> conclusions(const Comparison& runs) {
  std::vector<std::string> out;
  for (std::size_t p = 1; p < runs.by_policy.size(); ++p) {
    out.push_back(conclusion(runs, p));
  }
  if (out.empty()) {
    return out;
  }
  const std::size_t seeds = runs.seeds.size();
  if (seeds == 1) {
    out.emplace_back("One seed: a difference may be chance. Run --seeds 5 to see how sure this is.");
    return out;
  }
  out.push_back(fmt::format(
      "{} seeds, paired: each policy has the same {} under a seed. Means and 95 % intervals (Student's t); no "
      "difference: the interval of the difference contains zero. KV figures are of the first seed.",
      seeds,
      runs.same_requests ? "routing (the requests are a recording, the same under all seeds)"
                         : "requests and routing"));
  return out;
}

}  // namespace epsim
