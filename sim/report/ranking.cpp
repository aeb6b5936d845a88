#include "sim/report/ranking.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/report/gain_split.h"

namespace epsim {
namespace {

// Undefined figures rank last.
double throughput_of(const Comparison& runs, std::size_t policy) {
  const std::vector<RunSummary>& seeds = runs.by_policy[policy];
  const double rate = over_seeds(runs, policy, metric("requests_per_s")).mean;
  const bool none = std::all_of(seeds.begin(), seeds.end(),
                                [](const RunSummary& r) { return !(r.number("completed_requests") > 0); });
  return !none && std::isfinite(rate) ? rate : -1.0;
}
double latency_of(const Comparison& runs, std::size_t policy) {
  const double latency = over_seeds(runs, policy, metric("e2e_mean_ms")).mean;
  return std::isfinite(latency) ? latency : std::numeric_limits<double>::infinity();
}

double relative(double first, double run) { return ratio(run, first) - 1; }

// "1/s" of requests_per_s is "requests/s".
std::string unit_in_words(const Metric& m) {
  return m.unit == "1/s" ? m.name.substr(0, m.name.find("_per_s")) + "/s" : m.unit;
}

// "mean TTFT -12.3 % (812 against 926 ms)"; over several seeds "mean TTFT -12.3 % +- 2.1 (812 against 926 ms)", or
// "mean TTFT no difference (-0.3 % +- 2.1)".
std::string against(const Comparison& runs, std::size_t policy, std::string_view key) {
  const Metric& figure = metric(key);
  const double first = over_seeds(runs, 0, figure).mean, own = over_seeds(runs, policy, figure).mean;
  const std::string values = fmt::format("{} against {} {}", rounded(own), rounded(first), unit_in_words(figure));
  const Estimate apart = difference(runs, policy, figure);
  if (!std::isfinite(apart.half_width)) {
    return fmt::format("{} {} % ({})", figure.key.title, signed_percent(relative(first, own)), values);
  }
  const std::string share =
      fmt::format("{} % +- {}", signed_percent(ratio(apart.mean, first)), percent(ratio(apart.half_width, first)));
  return holds_zero(apart) ? fmt::format("{} no difference ({})", figure.key.title, share)
                           : fmt::format("{} {} ({})", figure.key.title, share, values);
}

// Percentages of what is served in overload, and of latencies that grow with the run, would mislead.
std::string overloaded_against(const Comparison& runs, std::size_t policy) {
  const Metric& served = metric("requests_per_s");
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

std::string kv_cost(const RunSummary& first, const RunSummary& run) {
  const std::string pool = fmt::format("KV pool{} {} % ({} against {} tokens per rank)",
                                       run.number("transfers") > 0 ? " of decode instances" : "",
                                       signed_percent(change(metric("kv_tokens_per_rank"), first, run)),
                                       shown(run, "kv_tokens_per_rank"), shown(first, "kv_tokens_per_rank"));
  const double copies_gib = change(metric("kv_copies_gib_per_gpu"), first, run);
  return copies_gib == 0 ? fmt::format("{}; experts take the same GPU memory.", pool)
                         : fmt::format("{}: experts take {} GiB {} per GPU.", pool, fixed(std::abs(copies_gib), 3),
                                       copies_gib > 0 ? "more" : "less");
}

std::string kv_pressure(const RunSummary& first, const RunSummary& run) {
  if (first.number("kv_full_time_share") == 0 && run.number("kv_full_time_share") == 0) {
    const double before = first.number("prefix_hit_share"), now = run.number("prefix_hit_share");
    if (before < now || now < before) {
      return fmt::format(
          "No request waited for KV blocks in either run, but the pool also holds the prefix cache, whose hit rate is "
          "{} % (against {} %).",
          shown(run, "prefix_hit_share"), shown(first, "prefix_hit_share"));
    }
    return "No request waited for KV blocks in either run, so the size of the pool made no difference at this load.";
  }
  return fmt::format("The first request of a queue waited for KV blocks in {} % of the busy time (against {} %).",
                     shown(run, "kv_full_time_share"), shown(first, "kv_full_time_share"));
}

// Rows that are sent once: of a policy that acts in every step, what experts that go together save is not counted.
std::string unlike_rows(const RunSummary& first, const RunSummary& run) {
  const std::string &one = first.text("row_sharing"), &other = run.text("row_sharing");
  const bool now = other == kIndependentRows;
  if (one.empty() || other.empty() || (one == kIndependentRows) == now) {
    return "";
  }
  return fmt::format(
      " Rows that {} sends are counted as if experts were used independently, those of {} as tokens use them, so the "
      "time in exchanges differs by that too.",
      (now ? run : first).label, (now ? first : run).label);
}

// Rounding makes a step's GPUs less even, the more so the fewer tokens it has (docs/execution.md has an example).
std::string unlike_counts(const RunSummary& first, const RunSummary& run) {
  if (first.text("load_counts") == run.text("load_counts")) {
    return "";
  }
  const bool now = run.text("load_counts") == "whole";
  return fmt::format(
      " Caution: {} is scored on whole assignments, {} on expected counts, which look more even in small "
      "steps (docs/execution.md).",
      (now ? run : first).label, (now ? first : run).label);
}

// Recorded or constant requests on replayed loads: a policy that draws nothing has one run under all seeds.
std::vector<std::string> same_under_all_seeds(const Comparison& runs) {
  std::vector<std::string> out;
  for (const std::vector<RunSummary>& by_seed : runs.by_policy) {
    const auto same = [&](const RunSummary& run) { return run.text("fingerprint") == by_seed[0].text("fingerprint"); };
    if (std::ranges::all_of(by_seed, same)) {
      out.push_back(by_seed[0].label);
    }
  }
  return out;
}

std::string seeds_words(const Comparison& runs) {
  const std::size_t seeds = runs.seeds.size();
  if (seeds == 1) {
    return "One seed: a difference may be chance. Run --seeds 5 to see how sure this is.";
  }
  const std::vector<std::string> same = same_under_all_seeds(runs);
  if (same.size() == runs.by_policy.size()) {
    return fmt::format(
        "{} seeds, and every policy's runs are one and the same: neither requests nor loads are drawn here, so the "
        "intervals are 0 and say nothing about chance. `loads.variation: sampled` draws what each step routes.",
        seeds);
  }
  return fmt::format(
             "{} seeds, paired: each policy has the same {} under a seed. Means and 95 % intervals (Student's t); no "
             "difference: the interval of the difference contains zero. KV figures are of the first seed.",
             seeds,
             runs.same_requests ? "routing (the requests are the same under all seeds)" : "requests and routing") +
         (same.empty() ? ""
                       : fmt::format(" The runs of {} are the same under all seeds: their intervals of 0 say nothing "
                                     "about chance.",
                                     fmt::join(same, ", ")));
}

}  // namespace

bool is_bound(const Comparison& runs, std::size_t policy) {
  const std::string& label = runs.first_seed(policy).label;
  return !is_gain_variant(label) && std::ranges::find(runs.out_of_reach, label) != runs.out_of_reach.end();
}

namespace {

// Of the first seed, as all that comes in lists; undefined where no step decodes alone.
double experts_of_decode_step_s(const RunSummary& run) {
  const auto decode = std::ranges::find_if(
      run.step_kinds, [](const StepKindFigures& kind) { return kind.pool == "all" && kind.kind == StepKind::kDecode; });
  return decode == run.step_kinds.end() ? kUndefined
                                        : ratio(decode->seconds("experts"), static_cast<double>(decode->steps));
}

// Why another policy beats a bound, where the figures tell.
std::string why_faster(const Comparison& runs, std::size_t faster, std::size_t bound) {
  constexpr double kShown = 1e-3;  // less is no difference in the digits of the report
  const RunSummary &other = runs.first_seed(faster), &own = runs.first_seed(bound);
  const auto mean = [&](std::size_t policy, std::string_view key) {
    return over_seeds(runs, policy, metric(key)).mean;
  };
  std::string out;
  // A bound's copies may take KV room.
  if (other.number("kv_tokens_per_rank") > own.number("kv_tokens_per_rank") &&
      mean(bound, "kv_full_time_share") >= kShown) {
    out += fmt::format(
        " {} has more KV room ({} against {} tokens per rank), and the first request of a queue waited for it in {} % "
        "of {}'s busy time.",
        other.label, shown(other, "kv_tokens_per_rank"), shown(own, "kv_tokens_per_rank"),
        percent(mean(bound, "kv_full_time_share")), own.label);
  }
  // Balance on whole and on expected counts cannot be compared: see unlike_counts().
  const bool alike = other.text("load_counts") == own.text("load_counts"),
             more_even = mean(bound, "balancedness_mean") - mean(faster, "balancedness_mean") >= kShown;
  if (alike && more_even && experts_of_decode_step_s(own) > experts_of_decode_step_s(other)) {
    out += " In small steps a more even load touches more experts, whose weights have to be read.";
  }
  return out;
}

// An even load need not be the fastest one.
std::string bound_words(const Comparison& runs, std::size_t policy) {
  if (!is_bound(runs, policy)) {
    return "";
  }
  const std::string& label = runs.first_seed(policy).label;
  for (std::size_t p = 0; p < runs.by_policy.size(); ++p) {
    if (!is_bound(runs, p) && !is_gain_variant(runs.first_seed(p).label) &&
        throughput_of(runs, p) >= throughput_of(runs, policy) && latency_of(runs, p) < latency_of(runs, policy)) {
      return fmt::format(" {} cannot be deployed, and it is not a bound here: {} is faster.{}", label,
                         runs.first_seed(p).label, why_faster(runs, p, policy));
    }
  }
  return fmt::format(" {} is a bound, not a policy: no deployment can have it.", label);
}

}  // namespace

std::string ranking_rule(const Comparison& runs) {
  std::vector<std::string> bounds;
  for (std::size_t p = 0; p < runs.by_policy.size(); ++p) {
    if (is_bound(runs, p)) {
      bounds.push_back(runs.first_seed(p).label);
    }
  }
  return std::string(kRankingRule) +
         (bounds.empty() ? ""
                         : fmt::format(" Last, as bounds that no deployment can have: {}.", fmt::join(bounds, ", ")));
}

std::vector<std::size_t> rank_policies(const Comparison& runs) {
  std::vector<std::size_t> order(runs.by_policy.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> throughput, latency;
  for (const std::size_t p : order) {
    throughput.push_back(throughput_of(runs, p));
    latency.push_back(latency_of(runs, p));
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
    std::sort(group, end,
              [&](std::size_t a, std::size_t b) { return latency[a] != latency[b] ? latency[a] < latency[b] : a < b; });
    group = end;
  }
  const auto is_policy = [&](std::size_t p) { return !is_gain_variant(runs.first_seed(p).label); };
  const auto variants = std::stable_partition(order.begin(), order.end(), is_policy);
  std::stable_partition(order.begin(), variants, [&](std::size_t p) { return !is_bound(runs, p); });
  return order;
}

std::vector<std::size_t> shown_policies(const Comparison& runs) {
  std::vector<std::size_t> order = rank_policies(runs);
  if (!gain_splits(runs).empty()) {
    std::erase_if(order, [&](std::size_t p) { return is_gain_variant(runs.first_seed(p).label); });
  }
  return order;
}

double change(const Metric& m, const RunSummary& first, const RunSummary& run) {
  const double before = first.numbers[m.index], after = run.numbers[m.index];
  return m.key.change.ends_with("_share") ? relative(before, after) : after - before;
}

std::string conclusion(const Comparison& runs, std::size_t policy) {
  const RunSummary &first = runs.first_seed(0), &run = runs.first_seed(policy);
  const Metric& balancedness = metric("balancedness_mean");
  const std::string gains =
      is_overloaded(runs, 0) || is_overloaded(runs, policy)
          ? overloaded_against(runs, policy)
          : fmt::format("{} against {}: {}, {}, {}, {}, balancedness {} against {}.", run.label, first.label,
                        against(runs, policy, "requests_per_s"), against(runs, policy, "ttft_mean_ms"),
                        against(runs, policy, "itl_mean_ms"), against(runs, policy, "e2e_mean_ms"),
                        fixed(over_seeds(runs, policy, balancedness).mean, 3),
                        fixed(over_seeds(runs, 0, balancedness).mean, 3));
  return fmt::format("{}{} {} {}{}{}", gains, bound_words(runs, policy), kv_cost(first, run), kv_pressure(first, run),
                     unlike_rows(first, run), unlike_counts(first, run));
}

std::vector<std::string> conclusions(const Comparison& runs) {
  std::vector<std::string> out;
  const std::vector<std::size_t> shown = shown_policies(runs);
  for (std::size_t p = 1; p < runs.by_policy.size(); ++p) {
    if (std::find(shown.begin(), shown.end(), p) != shown.end()) {
      out.push_back(conclusion(runs, p));
    }
  }
  if (out.empty()) {
    return out;
  }
  std::ranges::move(gain_sentences(rates_of(runs)), std::back_inserter(out));
  out.push_back(seeds_words(runs));
  return out;
}

}  // namespace epsim
