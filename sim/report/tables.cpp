#include "sim/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "sim/report/ranking.h"
#include "sim/report/text_table.h"

namespace epsim {
namespace {

constexpr std::size_t kColumns = 110;
constexpr std::size_t kLabelColumns = 16;
constexpr std::size_t kCaptionColumns = 16;

std::string label_of(const RunSummary& run) {
  return shortened(printable(run.label), kLabelColumns) + (run.interrupted ? " *" : "");
}

std::string bold(const std::string& text, TableStyle style) {
  return style.colour ? fmt::format("\033[1m{}\033[0m", text) : text;
}

// "  caption       text", continued under the text.
std::string captioned(std::string_view caption, std::string_view text) {
  return fmt::format("  {:<{}}{}\n", caption, kCaptionColumns - 2,
                     wrapped(text, kColumns, kCaptionColumns, kCaptionColumns));
}

TextTable comparison_columns() {
  TextTable table;
  table.add_column({"", "", "#"});
  table.add_column({"", "", "policy"}, Align::kLeft);
  table.add_column({"", "served", "req/s"});
  table.add_column({"TTFT", "mean", "ms"});
  table.add_column({"TTFT", "p99", "ms"});
  table.add_column({"ITL", "mean", "ms"});
  table.add_column({"TPOT", "mean", "ms"});
  table.add_column({"E2E", "mean", "s"});
  table.add_column({"output", "tokens", "/s/GPU"});
  table.add_column({"balanced-", "ness", "mean/max"});
  table.add_column({"KV pool", "tokens", "/rank"});
  table.add_column({"KV pool", "GiB", "/GPU"});
  table.add_column({"lost to", "copies", "%"});
  return table;
}

std::string requests_line(const RunSummary& run) {
  const ThroughputFigures& t = run.throughput;
  const std::string load = run.concurrency > 0 ? fmt::format("{} clients in a closed loop", grouped(run.concurrency))
                                               : fmt::format("offered {}/s", rounded(t.offered_requests_per_s));
  std::string text = fmt::format("{} of {} completed in {} s; {}, served {}/s", grouped(run.completed),
                                 grouped(run.offered), rounded(t.duration_s), load, rounded(t.requests_per_s));
  if (run.warmup > 0) {
    text += fmt::format("; {} of warm-up left out", grouped(run.warmup));
  }
  if (run.failed + run.retries > 0) {
    text += fmt::format("; with lost hardware {} started anew, {} failed", grouped(run.retries), grouped(run.failed));
  }
  if (run.interrupted) {
    text += fmt::format("; interrupted with {} running and {} waiting: only complete steps count", grouped(run.running),
                        grouped(run.waiting));
  }
  return captioned("requests", text);
}

std::string tokens_line(const RunSummary& run) {
  const ThroughputFigures& t = run.throughput;
  return captioned("tokens", fmt::format("{} in/s, {} out/s; per GPU {} in/s, {} out/s", rounded(t.input_tokens_per_s),
                                         rounded(t.output_tokens_per_s), rounded(t.input_tokens_per_s_per_gpu),
                                         rounded(t.output_tokens_per_s_per_gpu)));
}

std::string latency_table(const RunSummary& run) {
  TextTable table;
  table.add_column({"latency in ms"}, Align::kLeft);
  for (const char* name : {"mean", "p50", "p90", "p99", "max", "samples"}) {
    table.add_column({name});
  }
  const auto add = [&](const char* name, const LatencyFigures& l) {
    table.add_row({name, rounded(l.mean_ms), rounded(l.p50_ms), rounded(l.p90_ms), rounded(l.p99_ms), rounded(l.max_ms),
                   grouped(l.samples)});
  };
  add("TTFT", run.ttft);
  add("ITL", run.itl);
  add("TPOT", run.tpot);
  add("end-to-end", run.e2e);
  add("queue", run.queue);
  return table.render(2);
}

// A part of the step time under its column's header, and where to find it.
struct PartColumn {
  std::vector<std::string> header;
  LayerPart part;
};

std::vector<PartColumn> part_columns(const RunSummary& run) {
  std::vector<PartColumn> out{{{"atten-", "tion"}, LayerPart::kAttention}, {{"", "gate"}, LayerPart::kGate},
                              {{"dis-", "patch"}, LayerPart::kDispatch},   {{"", "experts"}, LayerPart::kExperts},
                              {{"com-", "bine"}, LayerPart::kCombine},     {{"", "dense"}, LayerPart::kDense},
                              {{"plan-", "ning"}, LayerPart::kPlanning},   {{"pre-", "fetch"}, LayerPart::kPrefetch},
                              {{"migra-", "tion"}, LayerPart::kMigration}, {{"", "other"}, LayerPart::kOther}};
  std::erase_if(out, [&](const PartColumn& c) {  // only policies that act in every step, or plan again, have these
    const bool by_policies =
        c.part == LayerPart::kPlanning || c.part == LayerPart::kPrefetch || c.part == LayerPart::kMigration;
    return by_policies && run.parts[static_cast<std::size_t>(c.part)].seconds == 0;
  });
  return out;
}

// Milliseconds per step by kind of step, of each pool where there are two; at last the shares of the whole.
std::string time_table(const RunSummary& run) {
  const std::vector<PartColumn> columns = part_columns(run);
  TextTable table;
  table.add_column({"", "ms per step"}, Align::kLeft);
  table.add_column({"", "steps"});
  table.add_column({"time", "%"});
  table.add_column({"", "step"});
  for (const PartColumn& column : columns) {
    table.add_column(column.header);
  }
  table.add_column({"of it", "straggler"});
  const auto add = [&](const std::string& name, std::int64_t steps, double share, double mean_ms,
                       const std::array<TimeShare, kLayerParts>& parts, const TimeShare& straggler) {
    const auto per_step = [steps](const TimeShare& time) {
      return rounded(ratio(time.seconds * 1e3, static_cast<double>(steps)));
    };
    std::vector<std::string> row{name, grouped(steps), percent(share), rounded(mean_ms)};
    for (const PartColumn& column : columns) {
      row.push_back(per_step(parts[static_cast<std::size_t>(column.part)]));
    }
    row.push_back(per_step(straggler));
    table.add_row(std::move(row));
  };
  for (const StepKindFigures& f : run.step_kinds) {
    const std::string_view kind = kStepKindNames[static_cast<std::size_t>(f.kind)];
    if (f.steps > 0) {
      add(f.pool == "all" ? std::string(kind) : fmt::format("{} pool: {}", f.pool, kind), f.steps, f.time.share,
          f.mean_ms, f.parts, f.straggler);
    }
  }
  add("all", run.steps, ratio(run.step_time_s, run.step_time_s), run.step_mean_ms, run.parts, run.straggler);
  std::vector<std::string> shares{"share, %", "", "", percent(ratio(run.step_time_s, run.step_time_s))};
  for (const PartColumn& column : columns) {
    shares.push_back(percent(run.parts[static_cast<std::size_t>(column.part)].share));
  }
  shares.push_back(percent(run.straggler.share));
  table.add_row(std::move(shares));
  return table.render(2);
}

std::string steps_line(const RunSummary& run) {
  return captioned("steps", fmt::format("{} of {} ms on average; busy {} % of the time", grouped(run.steps),
                                        rounded(run.step_mean_ms), percent(run.busy_share)));
}

std::string origins_line(const RunSummary& run) {
  std::string text;
  for (std::size_t i = 0; i < run.origins.size(); ++i) {
    text += fmt::format("{}{} {} %", i > 0 ? ", " : "", kOriginNames[i], percent(run.origins[i].share));
  }
  std::string out = captioned("price origins", text);
  for (const std::string& reason : run.carried_over) {
    out += captioned("", printable(reason));
  }
  return out;
}

std::string balancedness_line(const RunSummary& run) {
  const BalanceFigures& b = run.balancedness;
  const std::string worst =
      b.worst_layer >= 0 ? fmt::format("{} in layer {}", fixed(b.worst_layer_mean, 3), b.worst_layer) : "-";
  return captioned("balancedness", fmt::format("mean {}, worst {}, lowest step {}; planned {}", fixed(b.mean, 3), worst,
                                               fixed(b.lowest_step, 3), fixed(b.planned, 3)));
}

std::string link_line(const RunSummary& run) {
  if (run.busiest_link.name.empty()) {
    return "";
  }
  std::string text = fmt::format("{}, {} % of its rate on average", printable(run.busiest_link.name),
                                 percent(run.busiest_link.utilisation_share));
  const std::pair<const char*, const BottleneckFigures*> directions[] = {{"dispatch", &run.dispatch_bottleneck},
                                                                         {"combine", &run.combine_bottleneck}};
  for (const auto& [name, bottleneck] : directions) {
    if (!bottleneck->link.empty()) {
      text += fmt::format("; {} waits for {} in {} % of its time", name, printable(bottleneck->link),
                          percent(bottleneck->share));
    }
  }
  return captioned("busiest link", text);
}

std::string kv_lines(const RunSummary& run) {
  const KvFigures& kv = run.kv;
  const std::string size =
      fmt::format("{} tokens per rank, {} GiB per GPU ({} B per token and GPU); {} % lost to copies ({} GiB per GPU)",
                  grouped(kv.tokens_per_rank), fixed(kv.gib_per_gpu, 3), rounded(kv.bytes_per_token_per_gpu),
                  percent(kv.lost_to_copies_share), fixed(kv.copies_gib_per_gpu, 3));
  const std::string use =
      fmt::format("peak {} %, mean {} %; full with a request waiting {} % of the busy time", percent(kv.peak_use_share),
                  percent(kv.mean_use_share), percent(kv.full_time_share));
  std::string more;
  if (kv.hit_tokens > 0) {
    more += captioned("prefix cache", fmt::format("{} of {} input tokens found, {} %", grouped(kv.hit_tokens),
                                                  grouped(kv.lookup_tokens), percent(kv.hit_share)));
  }
  if (kv.retractions > 0) {
    more += captioned("retractions", fmt::format("{} for lack of KV blocks, {} tokens computed again",
                                                 grouped(kv.retractions), grouped(kv.recomputed_tokens)));
  }
  if (run.transfers.count > 0) {
    more +=
        captioned("KV transfers", fmt::format("{} of {} tokens in all, {} ms each on average, after {} ms for the link",
                                              grouped(run.transfers.count), grouped(run.transfers.tokens),
                                              rounded(run.transfers.mean_ms), rounded(run.transfers.wait_mean_ms)));
  }
  return captioned("KV pool", size) + captioned("KV use", use) + more;
}

// Whether planning again was worth it, as far as the steps themselves tell.
std::string rebalance_line(const RunSummary& run) {
  const RebalanceReport& r = run.rebalance;
  if (!r.active) {
    return "";
  }
  if (r.events.empty()) {
    return captioned("rebalancing", "the rule never asked for a new plan");
  }
  const RebalanceEvent sum = r.sum();
  const auto seconds = [](Ticks time) { return fixed(to_seconds(time).count(), 3); };
  return captioned(
      "rebalancing",
      fmt::format("{} plans, {} taken, {} copies moved ({} GiB); steps gained {} s on the first plan and lost {} s "
                  "(planning {}, moving {}, slowed {}): {}",
                  r.events.size(), r.count(RebalanceOutcome::kTaken), grouped(sum.moved_copies),
                  fixed(to_gib(sum.moved), 3), seconds(r.gained), seconds(sum.lost()), seconds(sum.planning),
                  seconds(sum.moving), seconds(sum.slowed), r.gained > sum.lost() ? "it paid" : "it did not pay"));
}

// What lost GPUs and their return did to where experts are.
std::string regroup_line(const RunSummary& run) {
  const RegroupReport& r = run.regroup;
  if (r.changes == 0) {
    return "";
  }
  return captioned("lost GPUs", fmt::format("{} changes; {} copies made again ({} GiB from other GPUs, {} GiB from "
                                            "outside), for which instances stood still {} s",
                                            r.changes, grouped(r.remade_copies), fixed(to_gib(r.moved), 3),
                                            fixed(to_gib(r.reloaded), 3), fixed(to_seconds(r.remaking).count(), 3)));
}

std::string memory_line(const RunSummary& run) {
  std::string text;
  for (const MemoryItem& item : run.memory.items) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", printable(item.name), fixed(to_gib(item.size), 3));
  }
  return text.empty() ? "" : captioned("memory, GiB", text);
}

TextTable table_of_one_seed(const Comparison& runs) {
  TextTable table = comparison_columns();
  int rank = 0;
  for (const std::size_t i : rank_policies(runs)) {
    const RunSummary& r = runs.first_seed(i);
    table.add_row({fmt::format("{}", ++rank), label_of(r), rounded(r.throughput.requests_per_s),
                   rounded(r.ttft.mean_ms), rounded(r.ttft.p99_ms), rounded(r.itl.mean_ms), rounded(r.tpot.mean_ms),
                   rounded(r.e2e.mean_ms / 1e3), rounded(r.throughput.output_tokens_per_s_per_gpu),
                   fixed(r.balancedness.mean, 3), grouped(r.kv.tokens_per_rank), fixed(r.kv.gib_per_gpu, 3),
                   percent(r.kv.lost_to_copies_share)});
  }
  return table;
}

// "3.021 +- 0.020": the interval with as many digits as the mean.
std::string with_interval(const Estimate& e) {
  const std::string mean = rounded(e.mean);
  const std::size_t point = mean.find('.');
  const int digits = point == std::string::npos ? 0 : static_cast<int>(mean.size() - point - 1);
  return std::isfinite(e.half_width) ? fmt::format("{} +- {}", mean, fixed(e.half_width, digits)) : mean;
}

TextTable table_over_seeds(const Comparison& runs) {
  struct Shown {
    std::string_view key;
    std::vector<std::string> header;
    bool in_overload;  // whether it compares there
  };
  const Shown shown[] = {{"requests_per_s", {"served", "req/s"}, true},
                         {"ttft_mean_ms", {"TTFT mean", "ms"}, false},
                         {"ttft_p99_ms", {"TTFT p99", "ms"}, false},
                         {"itl_mean_ms", {"ITL mean", "ms"}, false},
                         {"e2e_mean_ms", {"E2E mean", "ms"}, false}};
  TextTable table;
  table.add_column({"", "#"});
  table.add_column({"", "policy"}, Align::kLeft);
  for (const Shown& column : shown) {
    table.add_column(column.header);
  }
  table.add_column({"balanced-", "ness"});
  int rank = 0;
  for (const std::size_t i : rank_policies(runs)) {
    std::vector<std::string> means{fmt::format("{}", ++rank), label_of(runs.first_seed(i))};
    std::vector<std::string> apart{"",
                                   shortened("  against " + printable(runs.first_seed(0).label), kLabelColumns + 2)};
    for (const Shown& column : shown) {
      const ComparedFigure& figure = compared_figure(column.key);
      const Estimate e = difference(runs, i, figure);
      const double first = over_seeds(runs, 0, figure).mean;
      means.push_back(with_interval(over_seeds(runs, i, figure)));
      const bool compares = column.in_overload || !(is_overloaded(runs, 0) || is_overloaded(runs, i));
      apart.push_back(!compares
                          ? "-"
                          : fmt::format("{}{} +- {} %", holds_zero(e) ? "= " : "", signed_percent(ratio(e.mean, first)),
                                        percent(ratio(e.half_width, first))));
    }
    means.push_back(fixed(over_seeds(runs, i, compared_figure("balancedness_mean")).mean, 3));
    apart.emplace_back();
    table.add_row(std::move(means));
    if (i != 0) {
      table.add_row(std::move(apart));
    }
  }
  return table;
}

}  // namespace

std::string comparison_table(const Comparison& runs, TableStyle style) {
  const std::optional<Overload> over = overload(runs);
  const bool several = runs.by_policy.size() > 1;
  std::string out = over ? wrapped(printable(over->text), kColumns, 0) + "\n\n" : "";
  out += (runs.seeds.size() > 1 ? table_over_seeds(runs) : table_of_one_seed(runs))
             .render(0, style.colour && several ? 0 : -1);
  if (runs.seeds.size() > 1) {
    out += "Mean +- 95 % interval; =: no difference, the interval of the difference contains zero.\n";
  }
  if (several) {
    out += wrapped(kRankingRule, kColumns, 0) + "\n";
  }
  const bool any_interrupted = std::any_of(runs.by_policy.begin(), runs.by_policy.end(),
                                           [](const auto& by_seed) { return by_seed.front().interrupted; });
  if (any_interrupted) {
    out += "* interrupted: only what was complete is counted, so this row does not compare with the others.\n";
  }
  return out;
}

std::string run_detail(const RunSummary& run, TableStyle style) {
  const std::string plan = run.plan.empty() ? "" : captioned("plan", printable(run.plan));
  return fmt::format("{}\n{}{}{}{}\n{}\n{}\n{}{}{}{}{}{}{}", bold(shortened(printable(run.label), kColumns), style),
                     plan, requests_line(run), tokens_line(run), steps_line(run), latency_table(run), time_table(run),
                     origins_line(run), balancedness_line(run), link_line(run), kv_lines(run), rebalance_line(run),
                     regroup_line(run), memory_line(run));
}

std::string conclusion_text(const Comparison& runs) {
  std::string out;
  for (const std::string& line : conclusions(runs)) {
    out += wrapped(printable(line), kColumns, 2) + "\n";
  }
  return out;
}

}  // namespace epsim
