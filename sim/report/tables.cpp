#include "sim/report/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/text.h"
#include "sim/report/gain_split.h"
#include "sim/report/ranking.h"
#include "sim/report/text_table.h"

namespace epsim {
namespace {

constexpr std::size_t kCaptionColumns = 16;

std::string label_of(const RunSummary& run) {
  return shortened(printable(run.label), kLabelColumns) + (run.flag("interrupted") ? " *" : "");
}

std::string bold(const std::string& text, TableStyle style) {
  return style.colour ? fmt::format("\033[1m{}\033[0m", text) : text;
}

// "  caption       text", continued under the text.
std::string captioned(std::string_view caption, std::string_view text) {
  return fmt::format("  {:<{}}{}\n", caption, kCaptionColumns - 2,
                     wrapped(text, kColumns, kCaptionColumns, kCaptionColumns));
}

std::string requests_line(const RunSummary& run) {
  const auto f = [&](const char* name) { return shown(run, name); };
  const std::string load = run.number("closed_loop_clients") > 0
                               ? fmt::format("{} clients in a closed loop", f("closed_loop_clients"))
                               : fmt::format("offered {}/s", f("offered_requests_per_s"));
  std::string text = fmt::format("{} of {} completed in {} s; {}, served {}/s", f("completed_requests"),
                                 f("offered_requests"), f("duration_s"), load, f("requests_per_s"));
  if (run.number("warmup_requests") > 0) {
    text += fmt::format("; {} of warm-up left out", f("warmup_requests"));
  }
  if (run.number("failed_requests") + run.number("retried_requests") > 0) {
    text +=
        fmt::format("; {} restarts after hardware failures, {} failed", f("retried_requests"), f("failed_requests"));
  }
  if (run.flag("interrupted")) {
    text += fmt::format("; interrupted with {} running and {} waiting: only complete steps count",
                        f("running_requests"), f("waiting_requests"));
  }
  return captioned("requests", text);
}

std::string tokens_line(const RunSummary& run) {
  const auto f = [&](const char* name) { return shown(run, name); };
  return captioned("tokens", fmt::format("{} in/s, {} out/s; per GPU {} in/s, {} out/s", f("input_tokens_per_s"),
                                         f("output_tokens_per_s"), f("input_tokens_per_s_per_gpu"),
                                         f("output_tokens_per_s_per_gpu")));
}

std::string latency_table(const RunSummary& run) {
  static constexpr std::pair<const char*, const char*> kLatencies[] = {
      {"ttft", "TTFT"}, {"itl", "ITL"}, {"tpot", "TPOT"}, {"e2e", "end-to-end"}, {"queue", "queue"}};
  TextTable table;
  table.add_column({"latency in ms"}, Align::kLeft);
  table.add_columns({{"mean"}, {"p50"}, {"p90"}, {"p99"}, {"max"}, {"samples"}});
  for (const auto& [name, words] : kLatencies) {
    std::vector<std::string> row{words};
    for (const char* statistic : {"mean_ms", "p50_ms", "p90_ms", "p99_ms", "max_ms", "samples"}) {
      row.push_back(shown(run, fmt::format("{}_{}", name, statistic)));
    }
    table.add_row(std::move(row));
  }
  return table.render(2);
}

std::string_view name_of(LayerPart part) { return kLayerPartNames[static_cast<std::size_t>(part)]; }

// A part of the step time under its column's header, and where to find it.
struct PartColumn {
  std::vector<std::string> header;
  LayerPart part;
};

std::vector<PartColumn> part_columns(const RunSummary& run) {
  std::vector<PartColumn> out{{{"atten-", "tion"}, LayerPart::kAttention},
                              {{"", "gate"}, LayerPart::kGate},
                              {{"dis-", "patch"}, LayerPart::kDispatch},
                              {{"", "experts"}, LayerPart::kExperts},
                              {{"com-", "bine"}, LayerPart::kCombine},
                              {{"", "dense"}, LayerPart::kDense},
                              {{"plan-", "ning"}, LayerPart::kPlanning},
                              {{"pre-", "fetch"}, LayerPart::kPrefetch},
                              {{"migra-", "tion"}, LayerPart::kMigration},
                              {{"draf-", "ter"}, LayerPart::kDrafter},
                              {{"", "host"}, LayerPart::kHost},
                              {{"", "other"}, LayerPart::kOther}};
  // Only policies that act in every step, or plan again, have these, and speculative decoding; a dense model has none of
  // those of experts.
  const bool dense = run.number("experts_s") == 0;
  std::erase_if(out, [&](const PartColumn& c) {
    const bool rare = c.part == LayerPart::kPlanning || c.part == LayerPart::kPrefetch ||
                      c.part == LayerPart::kMigration || c.part == LayerPart::kDrafter;
    const bool of_experts = c.part == LayerPart::kGate || c.part == LayerPart::kDispatch ||
                            c.part == LayerPart::kExperts || c.part == LayerPart::kCombine;
    return (rare || (dense && of_experts)) && run.number(fmt::format("{}_s", name_of(c.part))) == 0;
  });
  return out;
}

// Milliseconds per step by kind of step, of each pool where there are two; at last the shares of the whole.
std::string time_table(const RunSummary& run) {
  const std::vector<PartColumn> columns = part_columns(run);
  TextTable table;
  table.add_column({"", "ms per step"}, Align::kLeft);
  table.add_columns({{"", "steps"}, {"time", "%"}, {"", "step"}});
  for (const PartColumn& column : columns) {
    table.add_column(column.header);
  }
  table.add_column({"of it", "straggler"});
  // `seconds` of a part, or of "straggler".
  const auto add = [&](const std::string& name, double steps, double share, double mean_ms, auto seconds) {
    std::vector<std::string> row{name, shown(Form::kCount, steps), percent(share), rounded(mean_ms)};
    for (const PartColumn& column : columns) {
      row.push_back(rounded(ratio(seconds(name_of(column.part)) * 1e3, steps)));
    }
    row.push_back(rounded(ratio(seconds("straggler") * 1e3, steps)));
    table.add_row(std::move(row));
  };
  for (const StepKindFigures& f : run.step_kinds) {
    const std::string_view kind = kStepKindNames[static_cast<std::size_t>(f.kind)];
    if (f.steps > 0) {
      add(f.pool == "all" ? std::string(kind) : fmt::format("{} pool: {}", f.pool, kind), static_cast<double>(f.steps),
          f.share, f.mean_ms, [&](std::string_view part) { return f.seconds(part); });
    }
  }
  const double whole = ratio(run.number("step_time_s"), run.number("step_time_s"));
  add("all", run.number("steps"), whole, run.number("step_mean_ms"),
      [&](std::string_view part) { return run.number(fmt::format("{}_s", part)); });
  std::vector<std::string> shares{"share, %", "", "", percent(whole)};
  for (const PartColumn& column : columns) {
    shares.push_back(shown(run, fmt::format("{}_share", name_of(column.part))));
  }
  shares.push_back(shown(run, "straggler_share"));
  table.add_row(std::move(shares));
  return table.render(2);
}

std::string steps_line(const RunSummary& run) {
  return captioned("steps", fmt::format("{} of {} ms on average; busy {} % of the time", shown(run, "steps"),
                                        shown(run, "step_mean_ms"), shown(run, "busy_share")));
}

// How unevenly several instances of a role work: cache_aware keeps requests that share a prompt's start on one of them.
std::string instances_line(const RunSummary& run) {
  std::map<std::string, std::vector<double>> by_role;
  for (const InstanceFigures& instance : run.instances) {
    by_role[instance.role].push_back(instance.busy_share);
  }
  std::string text;
  for (const auto& [role, busy] : by_role) {
    if (busy.size() > 1) {
      const auto [least, most] = std::minmax_element(busy.begin(), busy.end());
      const std::string low = percent(*least), high = percent(*most);
      text += fmt::format("{}{}busy {} % of the time", text.empty() ? "" : "; ",
                          role == kInstanceRoleNames[0] ? "" : role + " ", low == high ? low : low + " to " + high);
    }
  }
  return text.empty() ? "" : captioned("instances", text);
}

std::string origins_line(const RunSummary& run) {
  std::string text;
  for (const std::string_view origin : kOriginNames) {
    text += fmt::format("{}{} {} %", text.empty() ? "" : ", ", origin, shown(run, fmt::format("{}_share", origin)));
  }
  std::string out = captioned("price origins", text);
  for (const std::string& reason : run.carried_over) {
    out += captioned("", printable(reason));
  }
  return out;
}

std::string balancedness_line(const RunSummary& run) {
  if (std::isnan(run.number("balancedness_mean"))) {  // a dense model's, or no step has run
    return "";
  }
  const auto f = [&](const char* name) { return shown(run, name); };
  const std::string worst =
      run.number("balancedness_worst_layer") >= 0
          ? fmt::format("{} in layer {}", f("balancedness_worst_layer_mean"), f("balancedness_worst_layer"))
          : "-";
  return captioned("balancedness", fmt::format("mean {}, worst {}, lowest step {}; planned {}", f("balancedness_mean"),
                                               worst, f("balancedness_lowest_step"), f("balancedness_planned")));
}

// Of what exchanges and moved weights put on the ports, as balancedness is of what GPUs compute.
std::string exchange_balance_line(const RunSummary& run) {
  std::string text;
  for (const auto& [links, name] : {std::pair{"NICs", "nic"}, std::pair{"GPU ports", "gpu"}}) {
    const std::string sent = fmt::format("{}_sent_balance", name), received = fmt::format("{}_received_balance", name);
    if (!std::isnan(run.number(sent))) {
      text += fmt::format("{}{}: sent {}, received {}", text.empty() ? "mean / max over " : "; ", links,
                          shown(run, sent), shown(run, received));
    }
  }
  return text.empty() ? "" : captioned("exchanged", text);
}

std::string rerouted_line(const RunSummary& run) {
  const double rerouted = run.number("assignments_rerouted");
  return rerouted > 0 ? captioned("rerouted", fmt::format("{:.1f} % of the experts that tokens chose; the cost in "
                                                          "accuracy is not modelled",
                                                          100 * rerouted / run.number("assignments_routed")))
                      : "";
}

std::string link_line(const RunSummary& run) {
  if (run.text("link_name").empty()) {
    return "";
  }
  std::string text = fmt::format("{}, {} % of its rate on average", printable(run.text("link_name")),
                                 shown(run, "link_utilisation_share"));
  for (const std::string direction : {"dispatch", "combine"}) {
    const std::string& link = run.text(direction + "_bottleneck_link");
    if (!link.empty()) {
      text += fmt::format("; {} waits for {} in {} % of the time in which its rows move", direction, printable(link),
                          shown(run, direction + "_bottleneck_share"));
    }
  }
  return captioned("busiest link", text);
}

std::string kv_lines(const RunSummary& run) {
  const auto f = [&](const char* name) { return shown(run, name); };
  const auto takes = [&](std::string_view name) {
    return std::any_of(run.memory.begin(), run.memory.end(),
                       [&](const MemoryItem& item) { return item.name == name && item.size > Bytes(0); });
  };
  const std::string_view extras = extras_words(takes(kUnevenExpertsItem), takes(kExtraCopiesItem),
                                               takes(kPrefetchBuffersItem) || takes(kMigrationBufferItem));
  std::string out = captioned(
      "KV pool",
      fmt::format("{}{} tokens per rank, {} GiB per GPU ({} B per token and GPU); {} % lost to {} ({} GiB per GPU)",
                  run.prefill_memory.empty() ? "" : "decode: ", f("kv_tokens_per_rank"), f("kv_pool_gib_per_gpu"),
                  f("kv_bytes_per_token_per_gpu"), f("kv_lost_to_copies_share"), extras, f("kv_copies_gib_per_gpu")));
  out += captioned("KV use", fmt::format("peak {} %, mean {} %; full with a request waiting {} % of the busy time",
                                         f("kv_peak_use_share"), f("kv_mean_use_share"), f("kv_full_time_share")));
  if (run.prefix_cache || run.number("prefix_hit_tokens") > 0) {
    out += captioned("prefix cache", fmt::format("{} of {} input tokens found, {} %", f("prefix_hit_tokens"),
                                                 f("prefix_lookup_tokens"), f("prefix_hit_share")));
  }
  if (run.number("retractions") > 0) {
    out += captioned("retractions", fmt::format("{} for lack of KV blocks, {} tokens computed again", f("retractions"),
                                                f("recomputed_tokens")));
  }
  if (run.number("transfers") > 0) {
    out += captioned("KV transfers", fmt::format("{} of {} tokens in all, {} ms each on average, after {} ms for "
                                                 "decode memory and {} ms behind others or their own earlier parts",
                                                 f("transfers"), f("transferred_tokens"), f("transfer_mean_ms"),
                                                 f("transfer_memory_wait_mean_ms"), f("transfer_wait_mean_ms")));
  }
  return out;
}

// Whether planning again was worth it, as far as the steps themselves tell.
std::string rebalance_line(const RunSummary& run) {
  const auto f = [&](const char* name) { return shown(run, name); };
  if (!run.defined(metric("rebalance_plans"))) {
    return "";
  }
  if (run.number("rebalance_plans") == 0) {
    return captioned("rebalancing", "the rule never asked for a new plan");
  }
  const bool paid = run.number("rebalance_gained_s") > run.number("rebalance_lost_s");
  const std::string refused =
      run.number("rebalance_did_not_fit") > 0 ? fmt::format(", {} did not fit", f("rebalance_did_not_fit")) : "";
  return captioned("rebalancing",
                   fmt::format("{}, {} taken{}, {} moved ({} GiB); steps gained {} s on the first plan and lost {} s "
                               "(planning {}, moving {}, slowed {}): {}",
                               count_of(f("rebalance_plans"), "plan"), f("rebalance_taken"), refused,
                               count_of(f("rebalance_moved_copies"), "copy"), f("rebalance_moved_gib"),
                               f("rebalance_gained_s"), f("rebalance_lost_s"), f("rebalance_planning_s"),
                               f("rebalance_moving_s"), f("rebalance_slowed_s"), paid ? "it paid" : "it did not pay"));
}

// What lost GPUs and their return did to where experts are.
std::string regroup_line(const RunSummary& run) {
  const auto f = [&](const char* name) { return shown(run, name); };
  if (!run.defined(metric("gpu_changes"))) {
    return "";
  }
  return captioned("lost GPUs", fmt::format("{}; {} made again ({} GiB from other GPUs, {} GiB from outside), for "
                                            "which instances stood still {} s",
                                            count_of(f("gpu_changes"), "change"), count_of(f("remade_copies"), "copy"),
                                            f("remade_moved_gib"), f("remade_reloaded_gib"), f("remaking_s")));
}

std::string memory_line(std::string_view pool, std::span<const MemoryItem> items) {
  std::string text;
  for (const MemoryItem& item : items) {
    if (item.size.count() == 0) {
      continue;
    }
    text += fmt::format("{}{} {}", text.empty() ? pool : ", ", printable(item.name), fixed(to_gib(item.size), 3));
  }
  return text.empty() ? "" : captioned("memory, GiB", text);
}

std::string memory_lines(const RunSummary& run) {
  const bool apart = !run.prefill_memory.empty();
  return memory_line("prefill: ", run.prefill_memory) + memory_line(apart ? "decode: " : "", run.memory);
}

TextTable table_of_one_seed(const Comparison& runs) {
  TextTable table;
  table.add_column({"", "", "#"});
  table.add_column({"", "", "policy"}, Align::kLeft);
  for (const Metric* m : key_columns()) {
    table.add_column({m->key.header.begin(), m->key.header.end()});
  }
  int rank = 0;
  for (const std::size_t i : shown_policies(runs)) {
    const RunSummary& r = runs.first_seed(i);
    std::vector<std::string> row{fmt::format("{}", ++rank), label_of(r)};
    for (const Metric* m : key_columns()) {
      row.push_back(shown(m->form, r.numbers[m->index] * m->key.scale));
    }
    table.add_row(std::move(row));
  }
  return table;
}

// "3.021 +- 0.020": the interval with as many digits as the mean.
std::string mean_text(const Estimate& e) {
  const std::string mean = rounded(e.mean);
  const std::size_t point = mean.find('.');
  const int digits = point == std::string::npos ? 0 : static_cast<int>(mean.size() - point - 1);
  return std::isfinite(e.half_width) ? fmt::format("{} +- {}", mean, fixed(e.half_width, digits)) : mean;
}

// Two lines over a column in the metric's own unit: {"TTFT mean", "ms"}, {"balanced-", "ness"}.
std::vector<std::string> short_header(const Metric& m) {
  const auto& [first, second, unit] = m.key.header;
  if (first.ends_with('-')) {
    return {first, second};
  }
  return {first + (first.empty() ? "" : " ") + second, m.key.scale == 1 ? unit : m.unit};
}

// A figure's difference from the first policy's, in percent of that.
std::string apart_text(const Comparison& runs, std::size_t policy, const Metric& m) {
  if (m.section == "latency" && (is_overloaded(runs, 0) || is_overloaded(runs, policy))) {
    return "-";  // it grows with the run
  }
  const Estimate e = difference(runs, policy, m);
  const double first = over_seeds(runs, 0, m).mean;
  return fmt::format("{}{} +- {} %", holds_zero(e) ? "= " : "", signed_percent(ratio(e.mean, first)),
                     percent(ratio(e.half_width, first)));
}

TextTable table_over_seeds(const Comparison& runs) {
  std::vector<const Metric*> columns = key_columns();
  std::erase_if(columns, [](const Metric* m) { return !m->key.over_seeds; });
  TextTable table;
  table.add_column({"", "#"});
  table.add_column({"", "policy"}, Align::kLeft);
  for (const Metric* m : columns) {
    table.add_column(short_header(*m));
  }
  int rank = 0;
  for (const std::size_t i : shown_policies(runs)) {
    std::vector<std::string> means{fmt::format("{}", ++rank), label_of(runs.first_seed(i))};
    std::vector<std::string> apart{"",
                                   shortened("  against " + printable(runs.first_seed(0).label), kLabelColumns + 2)};
    for (const Metric* m : columns) {
      const bool interval = m->form == Form::kNumber;
      const Estimate e = over_seeds(runs, i, *m);
      means.push_back(interval ? mean_text(e) : shown(m->form, e.mean));
      apart.push_back(interval ? apart_text(runs, i, *m) : "");
    }
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
  const std::string remark = over ? over->text : short_run_text(runs);
  std::string out = remark.empty() ? "" : wrapped(printable(remark), kColumns, 0) + "\n\n";
  out += (runs.seeds.size() > 1 ? table_over_seeds(runs) : table_of_one_seed(runs))
             .render(0, style.colour && several ? 0 : -1);
  if (runs.seeds.size() > 1) {
    out += "Mean +- 95 % interval; =: no difference, the interval of the difference contains zero.\n";
  }
  if (several) {
    out += wrapped(printable(ranking_rule(runs)), kColumns, 0) + "\n";
  }
  const bool any_interrupted = std::any_of(runs.by_policy.begin(), runs.by_policy.end(),
                                           [](const auto& by_seed) { return by_seed.front().flag("interrupted"); });
  if (any_interrupted) {
    out += "* interrupted: only what was complete is counted, so this row does not compare with the others.\n";
  }
  return out;
}

std::string run_detail(const RunSummary& run, TableStyle style) {
  const std::string plan = run.text("plan").empty() ? "" : captioned("plan", printable(run.text("plan")));
  const std::string& sharing = run.text("row_sharing");
  const std::string& own = run.text("overrides");
  return fmt::format("{}\n{}{}{}{}\n{}\n{}\n{}{}{}{}{}{}{}", bold(shortened(printable(run.label), kColumns), style),
                     (own.empty() ? "" : captioned("its own", printable(own))) + plan +
                         (sharing.empty() ? "" : captioned("shared rows", printable(sharing))),
                     requests_line(run), tokens_line(run), steps_line(run) + instances_line(run), latency_table(run),
                     time_table(run), origins_line(run),
                     balancedness_line(run) + exchange_balance_line(run) + rerouted_line(run), link_line(run),
                     kv_lines(run), rebalance_line(run), regroup_line(run), memory_lines(run));
}

std::string conclusion_text(const Comparison& runs) {
  std::string out = gain_split_table(gain_splits(runs));
  out += out.empty() ? "" : "\n";
  for (const std::string& line : conclusions(runs)) {
    out += wrapped(printable(line), kColumns, 2) + "\n";
  }
  return out;
}

}  // namespace epsim
